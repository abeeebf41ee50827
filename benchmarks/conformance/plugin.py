"""A pytest plugin that runs coremltools' tests on the drop-in runtime and records which ones are in scope.

A test is in scope if it loads a model or predicts with one; all other tests also run without the runtime. The
plugin is configured by environment variables, see `plugin_names`, and writes one JSON line per test.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import sys
import types
import zlib
from collections.abc import Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from benchmarks.conformance.housing import synthetic_housing
from benchmarks.conformance.plugin_names import COMPILED, DONE, ONE_PER, PART, RESULTS, SAMPLE

_MESSAGE_CHARACTERS = 2000


def _replace_torchvision() -> None:
    """Replaces torchvision's compiled part, which does not load with a CPU build of PyTorch."""
    name = "torchvision._meta_registrations"
    sys.modules[name] = types.ModuleType(name)


_replace_torchvision()

import coremlscope  # noqa: E402

coremlscope.install()

from coremltools.converters.mil import Builder  # noqa: E402

from coremlscope.dropin import compiled  # noqa: E402
from coremlscope.dropin.proxies import ModelProxy  # noqa: E402
from coremlscope.formats import container  # noqa: E402
from tests.support.compiled_models import assert_same_model  # noqa: E402

with contextlib.suppress(ImportError):  # It needs pandas, which tests of networks do not use.
    from coremltools.test import utils as suite_utils

    suite_utils.load_boston = synthetic_housing

#: The uses of models in the running test: `load`, `predict`.
_uses: set[str] = set()
#: The kinds of the models that the running test loaded.
_kinds: set[str] = set()


def _watch(method: str, what: str) -> None:
    original = getattr(ModelProxy, method)

    @wraps(original)
    def watched(self: ModelProxy, *args: Any, **kwargs: Any) -> Any:
        _uses.add(what)
        try:
            return original(self, *args, **kwargs)
        finally:
            model = getattr(self, "_model", None)
            if model is not None:
                _kinds.add(model.kind)

    setattr(ModelProxy, method, watched)


_watch("__init__", "load")
_watch("predict", "predict")
_watch("batchPredict", "predict")


def _load_compiled() -> None:
    """Makes every ML Program load from a compiled model, whose graph must be that of the package."""
    original = compiled.copy_model

    def compile_model(path: Path) -> Path:
        copy = original(path)
        model = container.read(copy)
        if model.kind != "mlProgram":
            return copy
        folder = compiled.compile_loaded(model, copy)
        assert_same_model(container.read(folder), model)
        return folder

    compiled.copy_model = compile_model


if os.environ.get(COMPILED) == "1":
    _load_compiled()


def _part(text: str | None) -> tuple[int, int]:
    k, n = (text or "0/1").split("/")
    return int(k), int(n)


def _write(record: dict[str, Any]) -> None:
    path = os.environ.get(RESULTS)
    if path:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Selects this process's part of the sample, without the tests that have run."""
    done_file = os.environ.get(DONE)
    done = set(Path(done_file).read_text(encoding="utf-8").splitlines()) if done_file else set()
    (k, n), (part, parts) = _part(os.environ.get(SAMPLE)), _part(os.environ.get(PART))
    numbers = {item.nodeid: zlib.crc32(item.nodeid.encode()) for item in items}
    kept = [item for item in items if numbers[item.nodeid] % n == k]
    if one_per := os.environ.get(ONE_PER):
        kept = _one_of_each(kept, numbers, one_per)
    items[:] = [i for i in kept if numbers[i.nodeid] // n % parts == part and i.nodeid not in done]


def _one_of_each(items: list[pytest.Item], numbers: dict[str, int], one_per: str) -> list[pytest.Item]:
    """Selects one test of each class or function for ML Programs and one for neural networks."""
    chosen: dict[tuple[str, bool], pytest.Item] = {}
    for item in sorted(items, key=lambda i: numbers[i.nodeid]):
        chosen.setdefault(_origin_and_backend(item, one_per), item)
    return [item for item in items if chosen[_origin_and_backend(item, one_per)] is item]


def _origin_and_backend(item: pytest.Item, one_per: str) -> tuple[str, bool]:
    """Returns the class or function of a test; a function outside classes counts as a class."""
    name = item.nodeid.partition("[")[0]
    is_method = name.count("::") > 1
    origin = name.rpartition("::")[0] if one_per == "class" and is_method else name
    return origin, "neuralnetwork" in item.nodeid


def pytest_collection_finish() -> None:
    """Excludes existing objects from garbage collection, which would take a second in each conversion."""
    gc.collect()
    gc.freeze()


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """A file that cannot be collected counts as a failure."""
    if report.failed:
        message = str(report.longrepr)[-_MESSAGE_CHARACTERS:]
        _write(
            {"id": report.nodeid, "outcome": "failed", "scope": ["collect"], "kinds": [], "message": message}
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Records the start of a test, which distinguishes a crash from a test that never ran.

    The numbering of value names restarts, because some tests expect the names of a new process.
    """
    Builder.name_count.clear()
    _uses.clear()
    _kinds.clear()
    _write({"id": item.nodeid, "start": True})
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Records the outcome of a test: of its call, or of the phase that failed or skipped it."""
    report: pytest.TestReport = yield  # type: ignore[misc, assignment]
    if report.when == "call" or (report.when == "setup" and not report.passed) or report.failed:
        _write(
            {
                "id": item.nodeid,
                "outcome": "xfailed" if hasattr(report, "wasxfail") else report.outcome,
                "scope": sorted(_uses),
                "kinds": sorted(_kinds),
                "seconds": round(report.duration, 3),
                "message": report.longreprtext[-_MESSAGE_CHARACTERS:] if report.failed else "",
            }
        )
    return report  # type: ignore[return-value]
