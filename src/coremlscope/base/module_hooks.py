"""Calls functions when modules have been imported."""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_Callback = Callable[[ModuleType], None]


def after_import(names: Iterable[str], callback: _Callback) -> Callable[[], None]:
    """Calls a function with each of some modules as soon as it has been imported.

    The function sees the module before the importing code does. It is not called for modules that are loaded
    already.

    Args:
        names: The full names of the modules.
        callback: The function.

    Returns:
        A function that undoes this.
    """
    entry = (frozenset(names), callback)
    if not _FINDER.entries:
        sys.meta_path.insert(0, _FINDER)
    _FINDER.entries.append(entry)

    def cancel() -> None:
        if entry in _FINDER.entries:
            _FINDER.entries.remove(entry)
        if not _FINDER.entries and _FINDER in sys.meta_path:
            sys.meta_path.remove(_FINDER)

    return cancel


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules that someone waits for by the other finders, and loads them with `_Loader`.

    There is one finder for all callbacks, because two such finders would ask each other without end.
    """

    def __init__(self) -> None:
        self.entries: list[tuple[frozenset[str], _Callback]] = []

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not any(fullname in names for names, _ in self.entries):
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = _Loader(spec.loader, self)
                return spec
        return None


class _Loader(importlib.abc.Loader):
    """Loads a module with its own loader and calls those who wait for it."""

    def __init__(self, loader: Any, finder: _Finder) -> None:
        self._loader = loader
        self._finder = finder

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        for names, callback in list(self._finder.entries):
            if module.__name__ in names:
                callback(module)


_FINDER = _Finder()
