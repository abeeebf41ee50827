"""Puts the stand-in for `coremltools.libcoremlpython` in place, and takes it away again.

Three things of coremltools are touched, and nothing outside of it:

* the module itself, which an import hook supplies;
* coremltools' questions about the operating system (`_is_macos()`, `_macos_version()`, `_IS_MACOS`), which
  then answer as on macOS 26. The two functions keep their identity and get other code, so that whoever
  captured them, under whatever name, hears the new answer;
* the names that modules imported too early hold as None (`_MLModelProxy` and its kin), which are bound again.

All of it is found by looking, at the time of the call, so `uninstall` also cleans modules that were imported
in between.
"""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import sys
from collections.abc import Iterator, Sequence
from types import CodeType, FunctionType, ModuleType

from coremlscope.errors import MissingDependencyError

__all__ = ["install", "is_installed", "uninstall"]

_PACKAGE = "coremltools"
_NATIVE = f"{_PACKAGE}.libcoremlpython"
_FLAG = "_IS_MACOS"
#: Modules to adapt as soon as they are imported; all others take what they need from these two.
_ANSWERING = (f"{_PACKAGE}._deps", f"{_PACKAGE}.models.utils")
#: It defines classes derived from the proxies, but only where the proxies exist when it is imported.
_REMOTE_MODULE = f"{_PACKAGE}.models.ml_program.experimental.compute_plan_utils"
_REMOTE_NAMES = (
    "_MLCPUComputeDeviceRemoteProxy",
    "_MLGPUComputeDeviceRemoteProxy",
    "_MLNeuralEngineComputeDeviceRemoteProxy",
    "_MLComputePlanRemoteProxy",
)


def install(device: str | None = None, os: str | None = None) -> None:
    """Makes coremltools run models here; on a Mac, where it does so by itself, nothing happens.

    It may be called before and after `import coremltools`, and more than once. Models that were loaded
    without it stay as they are; load them again.

    Args:
        device: A chip or device that compute plans are made for: `m1`, `iphone-15-pro`. By default that of
            the environment variable COREMLSCOPE_DEVICE, else an M4.
        os: The version of its system; by default that of COREMLSCOPE_OS, else the newest known one.

    Raises:
        MissingDependencyError: coremltools is not installed.
        UsageError: There is no such device, or the version does not run on it.
    """
    if device is not None:
        from coremlscope.dropin.plan import choose_device

        choose_device(device, os)
    if sys.platform == "darwin" or is_installed():
        return
    if _PACKAGE not in sys.modules and importlib.util.find_spec(_PACKAGE) is None:
        raise MissingDependencyError(
            "coremltools is not installed", "install it with `pip install coremlscope[coreml]`"
        )
    sys.meta_path.insert(0, _HOOK)
    if _PACKAGE in sys.modules:
        importlib.import_module(_NATIVE)
    for module in _loaded_modules():
        _adapt(module)
    _supply_remote_proxies()


def uninstall() -> None:
    """Leaves coremltools as it is without `install`. Models that are loaded keep working."""
    if not is_installed():
        return
    sys.meta_path.remove(_HOOK)
    sys.modules.pop(_NATIVE, None)
    for module in _loaded_modules():
        _restore(module)


def is_installed() -> bool:
    """True between `install` and `uninstall`; always False on a Mac."""
    return _HOOK in sys.meta_path


@functools.cache
def _native_module() -> ModuleType:
    """The stand-in, with the names of the classes that the native module has."""
    from coremlscope.dropin import compute_devices, proxies

    module = ModuleType(_NATIVE, "Core ML for coremltools, by coremlscope.")
    vars(module).update(
        _MLModelProxy=proxies.ModelProxy,
        _MLModelAssetProxy=proxies.AssetProxy,
        _MLComputePlanProxy=proxies.ComputePlanProxy,
        _MLCPUComputeDeviceProxy=compute_devices.CpuProxy,
        _MLGPUComputeDeviceProxy=compute_devices.GpuProxy,
        _MLNeuralEngineComputeDeviceProxy=compute_devices.NeuralEngineProxy,
    )
    return module


def _proxies() -> dict[str, type]:
    return {name: value for name, value in vars(_native_module()).items() if isinstance(value, type)}


def _loaded_modules() -> Iterator[ModuleType]:
    for name, module in list(sys.modules.items()):
        if isinstance(module, ModuleType) and name.partition(".")[0] == _PACKAGE and name != _NATIVE:
            yield module


def _adapt(module: ModuleType) -> None:
    """Answers the module's questions about the system, and binds proxies that it failed to import."""
    names = vars(module)
    if names.get(_FLAG) is False:
        names[_FLAG] = True
    for name, proxy in _proxies().items():
        if name in names and names[name] is None:
            names[name] = proxy
    if module.__name__ == _ANSWERING[1]:
        _swap_answers(module, {name: answer.__code__ for name, answer in _ANSWERS.items()})


def _restore(module: ModuleType) -> None:
    """Undoes `_adapt`, whenever the module was imported."""
    names = vars(module)
    if names.get(_FLAG) is True:
        names[_FLAG] = False
    proxies = tuple(_proxies().values())
    for name, value in list(names.items()):
        if value is _native_module():
            del names[name]
        elif isinstance(value, type) and issubclass(value, proxies):
            names[name] = None
    if module.__name__ == _ANSWERING[1]:
        _swap_answers(module, _ORIGINAL_ANSWERS)


def _is_macos() -> bool:
    return True


def _macos_version() -> tuple[int, ...]:
    return (26, 0)


_ANSWERS = {function.__name__: function for function in (_is_macos, _macos_version)}
_ORIGINAL_ANSWERS: dict[str, CodeType] = {}


def _swap_answers(module: ModuleType, codes: dict[str, CodeType]) -> None:
    for name, code in codes.items():
        captured = getattr(module, name)
        function = inspect.unwrap(captured)
        if not isinstance(function, FunctionType):
            raise TypeError(f"{module.__name__}.{name} is no Python function")
        _ORIGINAL_ANSWERS.setdefault(name, function.__code__)
        function.__code__ = code
        if hasattr(captured, "cache_clear"):
            captured.cache_clear()


def _supply_remote_proxies() -> None:
    """Gives the classes that a module did not define, because it was imported too early.

    They are taken from a second execution of that module, which nobody else sees; what it writes into other
    modules is put back.
    """
    module = sys.modules.get(_REMOTE_MODULE)
    if module is None or getattr(module, _REMOTE_NAMES[0]) is not None or module.__spec__ is None:
        return
    plan = vars(module)["MLComputePlan"]
    kept = plan.load_from_path_on_device
    copy = importlib.util.module_from_spec(module.__spec__)
    assert module.__spec__.loader is not None
    module.__spec__.loader.exec_module(copy)
    plan.load_from_path_on_device = kept
    for holder in _loaded_modules():
        for name in _REMOTE_NAMES:
            if name in vars(holder) and vars(holder)[name] is None:
                setattr(holder, name, getattr(copy, name))


class _NativeLoader(importlib.abc.Loader):
    """Loads the stand-in."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _native_module()

    def exec_module(self, module: ModuleType) -> None:
        """The module is complete when it is made."""


class _AdaptingLoader(importlib.abc.Loader):
    """Loads a module as its own loader does, and adapts it."""

    def __init__(self, loader: importlib.abc.Loader) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        if is_installed():
            _adapt(module)


class _Hook(importlib.abc.MetaPathFinder):
    """Finds the stand-in, and the modules that must be adapted before others import from them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname == _NATIVE:
            return importlib.machinery.ModuleSpec(_NATIVE, _NativeLoader(), origin="coremlscope")
        if fullname not in _ANSWERING:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = _AdaptingLoader(spec.loader)
                return spec
        return None


_HOOK = _Hook()
