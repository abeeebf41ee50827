"""Predictors of single functions."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from coremltools.models.neural_network import NeuralNetworkBuilder
from coremltools.models.neural_network.flexible_shape_utils import set_multiarray_ndshape_range

from coremlscope.base.errors import InputError, UnsupportedOpError, UsageError
from coremlscope.formats.container import read
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.model import ir
from coremlscope.runtime.engines.scripted import ScriptedEngine
from coremlscope.runtime.execution.cache import ArtefactCache
from coremlscope.runtime.execution.executable import CompileOptions
from coremlscope.runtime.execution.predictor import FunctionPredictor
from tests.support.ir_models import accumulator, adder
from tests.support.networks import network

FLEXIBLE = ir.RangeShapes(((1, 8), (3, 3)))


@dataclasses.dataclass(slots=True)
class _Counting(ScriptedEngine):
    """Counts the functions that it builds and loads."""

    built: int = 0
    loaded: int = 0

    def build(self, program, folder, options):  # type: ignore[no-untyped-def]
        self.built += 1
        return ScriptedEngine.build(self, program, folder, options)

    def load(self, folder, options, states=()):  # type: ignore[no-untyped-def]
        self.loaded += 1
        return ScriptedEngine.load(self, folder, options, states)


def _x(rows: int) -> np.ndarray:
    return np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)


def test_every_allowed_shape() -> None:
    with FunctionPredictor(adder(FLEXIBLE)) as predictor:
        for rows in (1, 2, 8, 2):
            np.testing.assert_array_equal(predictor.predict({"x": _x(rows)})["y"], _x(rows) + 2)
        with pytest.raises(InputError):
            predictor.predict({"x": _x(9)})


def test_a_shape_is_compiled_once_while_it_is_loaded() -> None:
    engine = _Counting()
    with FunctionPredictor(adder(FLEXIBLE), options=CompileOptions(engine=engine), max_loaded=2) as predictor:
        for rows in (1, 2, 1, 2):
            predictor.predict({"x": _x(rows)})
        assert engine.built == 2
        predictor.predict({"x": _x(3)})  # Unloads 1.
        predictor.predict({"x": _x(2)})
        assert engine.built == 3
        predictor.predict({"x": _x(1)})
        assert engine.built == 4


def test_fixed_shapes_have_one_executable() -> None:
    engine = _Counting()
    with FunctionPredictor(adder(), options=CompileOptions(engine=engine)) as predictor:
        predictor.predict({"x": _x(2)})
        assert predictor.executable() is predictor.executable()
        assert predictor.executable().shapes == {"x": (2, 3)}
    assert engine.built == 1


def test_states_persist() -> None:
    with FunctionPredictor(accumulator()) as predictor:
        state = predictor.new_state()
        for _ in range(3):
            result = predictor.predict({"x": [1.0, 2.0]}, state)
    np.testing.assert_array_equal(result["y"], [30, 60])


def test_many_threads(tmp_path: Path) -> None:
    def work(number: int) -> bool:
        rows = 1 + number % 5
        return np.array_equal(predictor.predict({"x": _x(rows)})["y"], _x(rows) + 2)

    with FunctionPredictor(adder(FLEXIBLE), max_loaded=2) as predictor, ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(100)))


def test_closing_removes_the_temporary_folder() -> None:
    predictor = FunctionPredictor(adder())
    folder = predictor.executable().folder
    assert folder.is_dir()
    predictor.close()
    assert not folder.exists()


def test_a_closed_predictor_is_a_usage_error() -> None:
    predictor = FunctionPredictor(adder())
    predictor.predict({"x": _x(2)})
    predictor.close()
    predictor.close()
    with pytest.raises(UsageError, match="the predictor is closed"):
        predictor.predict({"x": _x(2)})
    with pytest.raises(UsageError, match="the predictor is closed"):
        predictor.new_state()


def test_a_cache_outlives_the_predictor(tmp_path: Path) -> None:
    write_mlpackage(adder(), tmp_path / "m.mlpackage")
    model, cache, engine = read(tmp_path / "m.mlpackage"), ArtefactCache(tmp_path / "cache"), _Counting()
    options = CompileOptions(engine=engine)
    for _ in range(3):
        with FunctionPredictor(model, options=options, cache=cache) as predictor:
            predictor.predict({"x": _x(2)})
    assert (engine.built, engine.loaded) == (1, 3)
    with FunctionPredictor(model, options=options, cache=cache, function="times") as predictor:
        predictor.predict({"x": _x(2)})
    assert (engine.built, engine.loaded) == (2, 4)


def test_a_damaged_cache_entry_is_compiled_again(tmp_path: Path) -> None:
    write_mlpackage(adder(), tmp_path / "m.mlpackage")
    model, cache, engine = read(tmp_path / "m.mlpackage"), ArtefactCache(tmp_path / "cache"), _Counting()
    options = CompileOptions(engine=engine)
    with FunctionPredictor(model, options=options, cache=cache) as predictor:
        for file in predictor.executable().folder.iterdir():
            file.write_bytes(b"")
    with FunctionPredictor(model, cache=cache) as predictor:
        np.testing.assert_array_equal(predictor.predict({"x": _x(2)})["y"], _x(2) + 2)


def test_a_cache_serves_copies_of_a_model(tmp_path: Path) -> None:
    cache, engine = ArtefactCache(tmp_path / "cache"), _Counting()
    write_mlpackage(adder(), tmp_path / "a.mlpackage")
    shutil.copytree(tmp_path / "a.mlpackage", tmp_path / "b.mlpackage")
    for name in ("a", "b"):
        model = read(tmp_path / f"{name}.mlpackage")
        with FunctionPredictor(model, options=CompileOptions(engine=engine), cache=cache) as predictor:
            predictor.predict({"x": _x(2)})
    assert (engine.built, engine.loaded) == (1, 2)
    assert [entry.name for entry in cache.entries()] == ["a.mlpackage"]


def test_without_a_writable_cache(tmp_path: Path) -> None:
    write_mlpackage(adder(), tmp_path / "m.mlpackage")
    (tmp_path / "file").write_text("")
    cache = ArtefactCache(tmp_path / "file" / "cache")
    with FunctionPredictor(read(tmp_path / "m.mlpackage"), cache=cache) as predictor:
        np.testing.assert_array_equal(predictor.predict({"x": _x(2)})["y"], _x(2) + 2)


def _flexible_network(*names: str) -> NeuralNetworkBuilder:
    """A network with inputs of two axes, each of 1 to 8 elements and 1 by default."""
    builder = network(dict.fromkeys(names, (1, 1)), exact=True)
    for name in names:
        set_multiarray_ndshape_range(builder.spec, name, [1, 1], [8, 8])
    return builder


def test_layers_of_a_flexible_network_may_not_fit_its_default_shape() -> None:
    builder = _flexible_network("x")
    masks = {f"{name}_masks": [False, False] for name in ("begin", "end", "squeeze")}
    builder.add_slice_static("taken", "x", "y", begin_ids=[0, 3], end_ids=[1, 4], strides=[1, 1], **masks)
    with FunctionPredictor(read(builder.spec.SerializeToString())) as predictor:
        predictor.prepare()
        x = np.arange(8.0).reshape(2, 4)
        np.testing.assert_array_equal(predictor.predict({"x": x})["y"], [[3.0]])


def test_a_stack_must_fit_the_default_shapes() -> None:
    builder = _flexible_network("a", "b")
    builder.spec.description.input[1].type.multiArrayType.shape[:] = [2, 1]
    builder.add_stack("stack", ["a", "b"], "y", axis=0)
    with (
        FunctionPredictor(read(builder.spec.SerializeToString())) as predictor,
        pytest.raises(UnsupportedOpError, match="stack"),
    ):
        predictor.prepare()


def test_another_process_may_empty_the_cache_at_any_time(tmp_path: Path) -> None:
    class Emptied(ArtefactCache):
        def add(self, key: str, make: Callable[[Path], None], name: str = "") -> Path:
            folder = super().add(key, make, name)
            ArtefactCache(self.root).clear()
            return folder

    write_mlpackage(adder(), tmp_path / "m.mlpackage")
    with FunctionPredictor(read(tmp_path / "m.mlpackage"), cache=Emptied(tmp_path / "cache")) as predictor:
        np.testing.assert_array_equal(predictor.predict({"x": _x(2)})["y"], _x(2) + 2)
