"""Installs and uninstalls the replacement of `coremltools.libcoremlpython`.

Four parts of coremltools change, and nothing outside coremltools:

* The module itself: an import hook supplies it.
* The checks of the operating system (`_is_macos()`, `_macos_version()`, `_IS_MACOS`): they return the values
  of macOS 26. The two functions keep their identity and get new code, so that every captured reference
  returns the new value.
* The proxies (`_MLModelProxy` and others) that earlier imports bound to None: they are bound to the
  replacements.
* The class that opens packages: its errors name absent files.

Each call searches the loaded modules, so `uninstall` also restores modules that were imported in between.
"""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FunctionType, ModuleType

from coremlscope.base.errors import MissingDependencyError, how_to_install
from coremlscope.base.module_hooks import after_import
from coremlscope.dropin.packages import checked, is_checked, unchecked

_PACKAGE = "coremltools"
_NATIVE = f"{_PACKAGE}.libcoremlpython"
_FLAG = "_IS_MACOS"
_PACKAGE_CLASS = "_ModelPackage"
#: Modules to patch as soon as they are imported. All other modules import the checks from these two.
_CHECKING = (f"{_PACKAGE}._deps", f"{_PACKAGE}.models.utils")
#: This module derives classes from the proxies, but only if the proxies exist when it is imported.
_REMOTE_MODULE = f"{_PACKAGE}.models.ml_program.experimental.compute_plan_utils"
_REMOTE_NAMES = (
    "_MLCPUComputeDeviceRemoteProxy",
    "_MLGPUComputeDeviceRemoteProxy",
    "_MLNeuralEngineComputeDeviceRemoteProxy",
    "_MLComputePlanRemoteProxy",
)


def install(device: str | None = None, os: str | None = None) -> None:
    """Lets coremltools run models on this machine. On a Mac, where Core ML runs them, it does nothing.

    It may be called before or after `import coremltools`, and more than once. Models that were loaded earlier
    must be loaded again.

    Args:
        device: The chip or device that compute plans are made for: `m1`, `iphone-15-pro`. The default is the
            value of the environment variable COREMLSCOPE_DEVICE, else an M4.
        os: The version of the device's system. The default is the value of COREMLSCOPE_OS, else the newest
            known version.

    Raises:
        MissingDependencyError: coremltools is not installed.
        UsageError: The device is unknown, or the system version does not run on it.
    """
    global _stop_patching
    if device is not None:
        from coremlscope.dropin.plan import choose_device

        choose_device(device, os)
    if sys.platform == "darwin" or is_installed():
        return
    if _PACKAGE not in sys.modules and importlib.util.find_spec(_PACKAGE) is None:
        raise MissingDependencyError("coremltools is not installed", how_to_install("coreml"))
    sys.meta_path.insert(0, _HOOK)
    _stop_patching = after_import(_CHECKING, _patch)
    if _PACKAGE in sys.modules:
        importlib.import_module(_NATIVE)
    for module in _loaded_modules():
        _patch(module)
    _supply_remote_proxies()


def uninstall() -> None:
    """Restores coremltools. Loaded models keep working."""
    global _stop_patching
    if not is_installed():
        return
    sys.meta_path.remove(_HOOK)
    if _stop_patching is not None:
        _stop_patching()
        _stop_patching = None
    sys.modules.pop(_NATIVE, None)
    for module in _loaded_modules():
        _restore(module)


def is_installed() -> bool:
    """True after `install` and before `uninstall`; always False on a Mac."""
    return _HOOK in sys.meta_path


@functools.cache
def _native_module() -> ModuleType:
    """The replacement module, with the class names of the native module."""
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


def _patch(module: ModuleType) -> None:
    """Replaces a module's checks of the system, and binds the proxies that it failed to import."""
    names = vars(module)
    if names.get(_FLAG) is False:
        names[_FLAG] = True
    for name, proxy in _proxies().items():
        if name in names and names[name] is None:
            names[name] = proxy
    package = names.get(_PACKAGE_CLASS)
    if isinstance(package, type) and not is_checked(package):
        names[_PACKAGE_CLASS] = checked(package)
    if module.__name__ == _CHECKING[1]:
        _replace_code(module, {name: function.__code__ for name, function in _CHECKS.items()})


def _restore(module: ModuleType) -> None:
    """Reverts `_patch`, including for modules that were imported after `install`."""
    names = vars(module)
    if names.get(_FLAG) is True:
        names[_FLAG] = False
    proxies = tuple(_proxies().values())
    for name, value in list(names.items()):
        if value is _native_module():
            del names[name]
        elif isinstance(value, type) and issubclass(value, proxies):
            names[name] = None
        elif isinstance(value, type) and is_checked(value):
            names[name] = unchecked(value)
    if module.__name__ == _CHECKING[1]:
        _replace_code(module, _ORIGINAL_CODE)


def _is_macos() -> bool:
    return True


def _macos_version() -> tuple[int, ...]:
    return (26, 0)


_CHECKS = {function.__name__: function for function in (_is_macos, _macos_version)}
_ORIGINAL_CODE: dict[str, CodeType] = {}


def _replace_code(module: ModuleType, codes: dict[str, CodeType]) -> None:
    for name, code in codes.items():
        captured = getattr(module, name)
        function = inspect.unwrap(captured)
        if not isinstance(function, FunctionType):
            raise TypeError(f"{module.__name__}.{name} is not a Python function")
        _ORIGINAL_CODE.setdefault(name, function.__code__)
        function.__code__ = code
        if hasattr(captured, "cache_clear"):
            captured.cache_clear()


def _supply_remote_proxies() -> None:
    """Supplies the classes that `_REMOTE_MODULE` did not define because it was imported before `install`.

    They come from a second, private execution of that module. Its changes to other modules are reverted.
    """
    module = sys.modules.get(_REMOTE_MODULE)
    if module is None or getattr(module, _REMOTE_NAMES[0]) is not None or module.__spec__ is None:
        return
    plan = vars(module)["MLComputePlan"]
    original = plan.load_from_path_on_device
    copy = importlib.util.module_from_spec(module.__spec__)
    assert module.__spec__.loader is not None
    module.__spec__.loader.exec_module(copy)
    plan.load_from_path_on_device = original
    for holder in _loaded_modules():
        for name in _REMOTE_NAMES:
            if name in vars(holder) and vars(holder)[name] is None:
                setattr(holder, name, getattr(copy, name))


class _NativeLoader(importlib.abc.Loader):
    """Loads the replacement module."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _native_module()

    def exec_module(self, module: ModuleType) -> None:
        """Does nothing: `create_module` returns a complete module."""


class _Hook(importlib.abc.MetaPathFinder):
    """Finds the replacement module."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _NATIVE:
            return None
        return importlib.machinery.ModuleSpec(_NATIVE, _NativeLoader(), origin="coremlscope")


_HOOK = _Hook()
#: Stops patching modules that are imported; None while nothing is installed.
_stop_patching: Callable[[], None] | None = None
