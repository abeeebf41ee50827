"""The smallest part with a property: always found, within the limit on tests."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope.base.errors import EngineError, LimitError, UnsupportedModelError, UsageError
from coremlscope.cli import main
from coremlscope.formats import container
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.measure.runner.request import RunnerSettings, write_payload
from coremlscope.model import ir
from coremlscope.model.subject import Subject
from coremlscope.studies.isolation.isolate import isolate
from coremlscope.studies.isolation.search import RangeSearch, limit_of
from coremlscope.studies.variants.study import what_if
from tests.support.aimodels import sample
from tests.support.networks import network
from tests.support.networks import random as numbers
from tests.support.programs import build


def _search(count: int, culprits: Sequence[tuple[int, int]], limit: int = 0) -> RangeSearch:
    """Searches for a range that contains one of the culprits."""
    search = RangeSearch(count=count, limit=limit or limit_of(count))
    while (asked := search.next_range()) is not None:
        first, last = asked
        answer = any(first <= a and b <= last for a, b in culprits)
        search.record(first, last, answer)
    assert limit or search.tests <= 2 * math.log2(count)
    return search


@pytest.mark.parametrize("count", [16, 32])
def test_every_range_is_found_within_the_limit(count: int) -> None:
    for culprit in itertools.combinations_with_replacement(range(count), 2):
        assert _search(count, [culprit]).found == culprit


@pytest.mark.parametrize("count", [100, 150, 300])
def test_ranges_of_long_models(count: int) -> None:
    draw = random.Random(count)
    for _ in range(3):
        place = draw.randrange(count)
        assert _search(count, [(place, place)]).found == (place, place)
        first, last = sorted(draw.choices(range(count), k=2))
        search = _search(count, [(first, last)])
        # In a few lengths, 2·log2(n) tests cannot tell all ranges apart: one or two operations may remain.
        assert search.first <= first <= last <= search.last
        assert search.last - search.first <= last - first + 2


def test_one_of_several_causes_is_found() -> None:
    found = _search(100, [(20, 30), (25, 40), (70, 71)]).found
    assert found in [(20, 30), (25, 40), (70, 71)]


def test_nothing_is_found_where_nothing_is() -> None:
    search = _search(100, [])
    assert search.is_impossible
    assert search.found is None


def test_other_ranges_are_tested_instead_of_untestable_ones() -> None:
    search, culprit = RangeSearch(count=40, limit=16), 5
    untestable = search.next_range()
    while (asked := search.next_range()) is not None:
        search.record(*asked, None if asked == untestable else asked[0] <= culprit <= asked[1])
    assert search.found == (culprit, culprit)


def test_a_thousand_operations() -> None:
    search = _search(1000, [(333, 333)])
    assert search.found == (333, 333)
    assert search.tests <= 19


def _chain(length: int, *, scale: dict[int, float]) -> ir.Model:
    """Operations one after the other: some multiply, the others add nothing."""

    def body(x):
        for index in range(length):
            name = f"op_{index}"
            factor = np.float16(scale.get(index, 0))
            x = mb.mul(x=x, y=factor, name=name) if factor else mb.add(x=x, y=np.float16(0), name=name)
        return x

    return build(body, {"x": np.zeros((1, 4), np.float16)})


_ONES = {"x": np.ones((1, 4), np.float16)}


def test_overflow_of_one_operation() -> None:
    model = _chain(100, scale={10: 60000, 50: 1 / 4, 70: 8, 90: 0.25})
    found = isolate(Subject(model, inputs=_ONES), smallest="fp16-overflow")
    assert [unit.name for unit in found.units] == ["op_70"]
    assert found.search.is_smallest
    assert found.search.note.endswith("reaches 1.2e+05: 4 elements overflow to infinity")
    (one,) = isolate(
        Subject(_chain(1, scale={0: 60000}), inputs={"x": 2 * np.eye(1, 4)}), smallest="fp16-overflow"
    ).search.tests
    assert one.note.endswith(": 1 element overflows to infinity")
    assert len(found.search.tests) <= found.search.limit <= 2 * math.log2(100)


def test_overflow_of_a_neural_network_is_that_of_half_precision(tmp_path: Path) -> None:
    builder = network({"x": (4,)})
    builder.add_inner_product("small", np.eye(4), None, 4, 4, False, "x", "a")
    builder.add_inner_product("large", 1e3 * np.eye(4), None, 4, 4, False, "a", "b")
    builder.add_inner_product("last", numbers(4, 4), None, 4, 4, False, "b", "y")
    path = tmp_path / "network.mlmodel"
    path.write_bytes(builder.spec.SerializeToString())
    given = {"x": np.full(4, 1e2)}
    found = isolate(Subject(path, inputs=given), smallest="fp16-overflow", output=tmp_path / "part.mlmodel")
    assert [unit.name for unit in found.units] == ["large"]
    assert container.read(tmp_path / "part.mlmodel").kind == "neuralNetwork"


def test_operations_that_a_unit_does_not_run() -> None:
    def body(x):
        for index in range(20):
            x = mb.relu(x=x, name=f"relu_{index}")
        x = mb.cumsum(x=x, axis=1, name="sums")
        for index in range(20):
            x = mb.tanh(x=x, name=f"tanh_{index}")
        return x

    model = build(body, {"x": np.zeros((1, 8, 4, 4), np.float16)})
    found = isolate(model, smallest="off-neural-engine", devices="m1")
    assert [unit.name for unit in found.units] == ["sums"]
    assert "cumsum" in found.search.note
    with pytest.raises(UsageError, match="the whole model included"):
        isolate(model, smallest="off-cpu", devices="m1")


@dataclass
class _Both:
    """Rejects parts that contain all of some operations."""

    names: set[str]
    seen: list[int] = field(default_factory=list)

    def __call__(self, path: Path) -> bool:
        model = container.read(path)
        assert path.with_suffix(".npz").is_file()
        names = {op.name for op in model.content.functions["main"].graph.ops}
        self.seen.append(len(names))
        return self.names <= names


def test_functions_find_two_operations_and_leave_out_what_is_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("coremlscope.studies.isolation.smallest.limit_of", lambda _: 20)

    def body(x):
        left, right = x, x
        for index in range(8):
            left = mb.relu(x=left, name=f"left_{index}")
            right = mb.tanh(x=right, name=f"right_{index}")
        return mb.add(x=left, y=right, name="end")

    model = build(body, {"x": np.zeros((1, 4), np.float32)})
    found = isolate(model, smallest=_Both({"left_2", "left_5"}))
    assert [unit.name for unit in found.units] == ["left_2", "left_5"]
    assert found.search.is_smallest


def test_scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "chain.mlpackage"
    write_mlpackage(_chain(12, scale={}), path)
    script = tmp_path / "is_wrong.py"
    # A script that needs nothing: names of operations are in the file of the part.
    script.write_text(
        "import pathlib, sys\n"
        "files = [p for p in pathlib.Path(sys.argv[1]).rglob('*.mlmodel')]\n"
        "bad = b'op_7' in files[0].read_bytes()\n"
        "print('looked at', pathlib.Path(sys.argv[1]).name)\n"
        "sys.exit(bad)\n"
    )
    target = tmp_path / "part.mlpackage"
    arguments = ["isolate", str(path), "--smallest", str(script), "-o", str(target), "--json"]
    assert main([*arguments, str(tmp_path / "found.json")]) == 0
    shown = capsys.readouterr().out
    assert "op_7" in shown
    assert "is rejected by is_wrong.py" in shown
    saved = json.loads((tmp_path / "found.json").read_text())
    assert [unit["name"] for unit in saved["units"]] == ["op_7"]
    assert saved["search"]["tests"][0]["note"].startswith("looked at part-1")
    assert len(saved["search"]["tests"]) <= saved["search"]["limit"] == 7
    assert saved["profile"]["measurements"]
    assert target.is_dir()


@pytest.mark.parametrize(
    ("code", "error", "message"),
    [
        ("sys.exit(0)", UsageError, "no part is rejected"),
        ("sys.exit(1)", UsageError, "every part is rejected"),
        ("sys.exit(125)", UsageError, "without a result"),
        ("sys.exit(200)", EngineError, "exit code 200"),
        ("import os; os.kill(os.getpid(), 9)", EngineError, "signal 9"),
        ("import time; time.sleep(9)", LimitError, "longer than 1 s"),
    ],
)
def test_scripts_that_tell_nothing(tmp_path: Path, code: str, error: type[Exception], message: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"import sys; {code}")
    with pytest.raises(error, match=message):
        isolate(_chain(4, scale={}), smallest=script, timeout_s=1 if "sleep" in code else None)


def test_wrong_arguments(tmp_path: Path) -> None:
    model = _chain(2, scale={})
    with pytest.raises(UsageError, match="not clear"):
        isolate(model, smallest="off-gpu", type="conv")
    for unknown in (tmp_path / "absent.py", "off-ane"):
        with pytest.raises(UsageError, match="neither a script nor a known property"):
            isolate(model, smallest=unknown, devices="m1")
    with pytest.raises(UsageError, match="unknown"):
        isolate(model, smallest="off-gpu", devices="m99")
    with pytest.raises(UsageError, match="several devices"):
        isolate(model, smallest="off-gpu", devices=["m1", "m2"])


def test_core_ai_models_are_planned_as_such(tmp_path: Path) -> None:
    source, part = sample("tiny_conv"), tmp_path / "part.mlpackage"
    with pytest.raises(UsageError, match=r"off the Neural Engine of iPhone 17 Pro, iOS \d+"):
        isolate(source, smallest="off-neural-engine", devices="iphone-17-pro")
    isolate(source, part, type="conv", iterations=1)
    written = container.read(part)
    assert (written.kind, written.spec_version) == ("mlProgram", 9)
    for refused in (
        lambda: write_payload(tmp_path, [container.read(source)], RunnerSettings()),
        lambda: what_if(source, transforms=["int8"]),
    ):
        with pytest.raises(UnsupportedModelError, match="is a Core AI model"):
            refused()
