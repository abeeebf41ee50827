"""Fixtures of all tests."""

from __future__ import annotations

import functools
import gc
import hashlib
import math
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from coremlscope.base.module_hooks import after_import
from coremlscope.model.ir import Model

# Nothing is asserted on time, which is that of a busy machine.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
# Hypothesis would parse all modules of the package, for seconds in each process, to draw their constants.
providers._get_local_constants = lambda: providers._local_constants

# Tests import ONNX Runtime themselves; without this it would write telemetry files.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

# Each of several hundred child processes would compile all modules of the package anew without a cache.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell starts programs in the background with SIGINT ignored, and children inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_LONG = Path(__file__).parent / "long"
#: The seed of a random order; empty for that of the files.
_ORDER = os.environ.get("TEST_ORDER", "")
# Tests create and remove tens of thousands of folders, which takes milliseconds each on a disk.
_MEMORY, _ENOUGH_BYTES = Path("/dev/shm"), 8 << 30
if _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free >= _ENOUGH_BYTES:
    os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)

# Until `pytest_collection_finish`: each collection would walk over all that was imported before.
gc.disable()


def pytest_report_header() -> str:
    """Says in which order tests run."""
    return f"order of tests: TEST_ORDER={_ORDER}" if _ORDER else ""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Imports the modules of long tests only where those may run, and where only those may, no others."""
    is_long = _LONG in (collection_path, *collection_path.parents)
    if config.option.markexpr == "not long":
        return is_long or None
    if config.option.markexpr == "long" and collection_path.suffix == ".py" and not is_long:
        return b"mark.long" not in collection_path.read_bytes() or None
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Runs tests in a random order, if a seed is given: none may need what another one left."""
    if _ORDER:
        items.sort(key=lambda item: hashlib.sha256(f"{_ORDER} {item.nodeid}".encode()).digest())


def pytest_collection_finish() -> None:
    """Exempts all imported modules from garbage collection, and collects less often.

    coremltools collects garbage after each conversion, and a walk over all imported modules would take longer
    than the conversion itself. A model is tens of thousands of small objects without cycles: with Python's
    own thresholds, a seventh of the time of tests went into walks over them.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 50)
    gc.enable()


@pytest.fixture(scope="session")
def corpus(pytestconfig: pytest.Config) -> Path:
    """The folder of real models beside the checkout; skips the test if it is absent."""
    folder = pytestconfig.rootpath.parent / "shared" / "corpus"
    if not (folder / "index.csv").is_file():
        pytest.skip(f"no corpus at {folder}")
    return folder


def pytest_runtest_setup() -> None:
    """Forgets what is known of this machine: the test before may have been on a pretended one."""
    if host := sys.modules.get("coremlscope.runtime.engines.host"):
        for known in vars(host).values():
            if hasattr(known, "cache_clear"):
                known.cache_clear()


@contextmanager
def _own_temporary_folder(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Removes temporary files at the end, also those that coremltools removes only where `atexit` runs.

    Workers of pytest-xdist end without it.
    """
    with tempfile.TemporaryDirectory(prefix="coremlscope-tests-", ignore_cleanup_errors=True) as folder:
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", folder)
        yield


@contextmanager
def _quick_coremltools(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Skips what coremltools does for itself: collecting garbage, and validating programs after each pass.

    Conversions are as quick as those of variants. Nothing of it changes a model. Tests that do not need
    coremltools do not wait for its import.
    """

    def quicken(converters: ModuleType) -> None:
        from coremlscope.studies.variants.quick_coremltools import quick_coremltools

        program = sys.modules["coremltools.converters.mil"].Program
        validate = functools.wraps(program.validate)(lambda *_args, **_kwargs: None)
        patch.setattr(converters, "gc", SimpleNamespace(collect=lambda: 0))
        patch.setattr(program, "validate", validate)
        patch.setattr(converters, "mil_convert", quick_coremltools()(converters.mil_convert))

    name = "coremltools.converters._converters_entry"
    if name in sys.modules:
        quicken(sys.modules[name])
    cancel = after_import([name], quicken)
    yield
    cancel()


@pytest.fixture(scope="session")
def _preloading() -> Iterator[None]:
    """Lets `preloaded_child` fork from a process that has imported coremltools."""
    from tests.support.preloaded import preloading

    with preloading():
        yield


@pytest.fixture(scope="module")
def _read_once() -> Iterator[None]:
    """Reads and binds a model once for all tests of a module, which change no model."""
    from coremlscope.formats import container
    from coremlscope.runtime.execution.binding import sharing_bindings

    whole = container.read

    @functools.cache
    def read(source: str, _place: str) -> Model:
        return whole(source)

    def read_again(source: str | os.PathLike[str] | bytes) -> Model:
        # A model knows the path that it was read from as it was given.
        return (
            whole(source) if isinstance(source, bytes) else read(os.fspath(source), os.path.realpath(source))
        )

    with pytest.MonkeyPatch.context() as patch, sharing_bindings():
        patch.setattr(container, "read", read_again)
        yield


@pytest.fixture
def _real_children() -> Iterator[None]:
    """Starts the package's own children as it does for users, for tests of those processes."""
    from tests.support.preloaded import real_children

    with real_children():
        yield


@pytest.fixture(scope="session", autouse=True)
def _environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Makes results independent of the user's folders, the terminal and the system, and tests quick.

    One fixture: pytest visits each before every test.
    """
    from tests.support.preloaded import forked_children, leave_processors

    with (
        pytest.MonkeyPatch.context() as patch,
        _own_temporary_folder(patch),
        _quick_coremltools(patch),
        forked_children(),
    ):
        _repeat_less(patch)
        leave_processors()
        _use_own_folders(patch, tmp_path_factory)
        _measure_alike_on_a_mac(patch)
        _print_plainly(patch)
        yield


def _repeat_less(patch: pytest.MonkeyPatch) -> None:
    """Compiles, loads and predicts a few times where a test leaves the number open."""
    from coremlscope.measure import repetitions

    for phase, count in (("compile", 2), ("load", 2), ("predict", 8)):
        patch.setitem(repetitions._MOST, phase, count)


def _use_own_folders(patch: pytest.MonkeyPatch, folders: pytest.TempPathFactory) -> None:
    """Keeps tests away from the user's cache of compiled functions and own measurements."""
    patch.setenv("COREMLSCOPE_CACHE", str(folders.mktemp("cache")))
    patch.delenv("COREMLSCOPE_CACHE_LIMIT", raising=False)
    patch.setenv("COREMLSCOPE_DATA", str(folders.mktemp("data")))


def _measure_alike_on_a_mac(patch: pytest.MonkeyPatch) -> None:
    """On a Mac, measures with the embedded engine where a test names none, and holds Core ML to the CPU.

    Virtual Macs hang or crash with other compute units. Set either variable to test something else.
    """
    if sys.platform == "darwin":
        for name, value in (("COREMLSCOPE_ENGINE", "onnxruntime"), ("COREMLSCOPE_CORE_ML_UNITS", "cpu_only")):
            patch.setenv(name, os.environ.get(name, value))


def _print_plainly(patch: pytest.MonkeyPatch) -> None:
    """Makes output 100 columns wide and plain, without lines on time that passed."""
    patch.setenv("COLUMNS", "100")
    for name in ("FORCE_COLOR", "NO_COLOR"):
        patch.delenv(name, raising=False)
    # A busy machine would print lines of progress among the others.
    patch.setattr("coremlscope.cli.progress._PRINT_S", math.inf)
