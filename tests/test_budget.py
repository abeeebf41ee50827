"""Small files that ask for much memory: work is left to run time, or refused in a sentence."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import coremlscope
from coremlscope.base import budget as budgets
from coremlscope.base.budget import Budget
from coremlscope.base.errors import EngineError, InputError, UnsupportedModelError
from coremlscope.formats import container
from coremlscope.model import ir
from coremlscope.ops import OPS
from coremlscope.ops.bind import bind
from coremlscope.runtime.execution.lowering import lower_function
from tests.support.graphs import const, function, op, tensor, value
from tests.support.large_models import converted_program, deep_network

_MB = 2**20
_SMALL = Budget(memory_bytes=1024 * _MB, model_bytes=4096)
_INT = ir.DType.INT32


def _model(main: ir.Function, size_bytes: int = 4096) -> ir.Model:
    def features(values: tuple[ir.Value, ...]) -> tuple[ir.Feature, ...]:
        shapes = [v.type.shape for v in values if isinstance(v.type, ir.TensorType)]
        types = [ir.ArrayFeature(dtype=ir.DType.FP32, shape=tuple(d or 1 for d in s or ())) for s in shapes]
        return tuple(ir.Feature(v.name, type_) for v, type_ in zip(values, types, strict=True))

    interface = ir.FunctionDescription(
        inputs=features(main.graph.inputs), outputs=features(main.graph.outputs)
    )
    return ir.Model(
        spec_version=8,
        description=ir.Description({"main": interface}, "main"),
        content=ir.Program(functions={"main": main}),
        size_bytes=size_bytes,
    )


def _doubling(kind: str, times: int) -> ir.Function:
    """Joins a constant of 1,024 elements with itself, repeatedly."""
    ops, shape = [const("c0", np.ones(1024, np.float32))], (1024,)
    for index in range(times):
        last = ops[-1].outputs[0]
        shape = (2, *shape) if kind == "stack" else (2 * shape[0],)
        more = {"interleave": False} if kind == "concat" else {}
        ops.append(op(kind, value(f"c{index + 1}", tensor(*shape)), values=(last, last), axis=0, **more))
    x, y = value("x", tensor(1)), value("y", tensor(*shape))
    return function((x,), (*ops, op("add", y, x=ops[-1].outputs[0], y=x)), (y,))


def _result(kind: str, length: int, **given: object) -> ir.Function:
    """The sum of the input and the result of one operation of constants."""
    x, made, y = value("x", tensor(1)), value("made", tensor(length)), value("y", tensor(length))
    return function((x,), (op(kind, made, **given), op("add", y, x=made, y=x)), (y,))


def _one_hot(length: int) -> ir.Function:
    x, i, y = value("x", tensor(1)), value("i", tensor(1, dtype=_INT)), value("y", tensor(1, length))
    hot = op("one_hot", y, indices=i, one_hot_vector_size=length, on_value=1.0, off_value=0.0)
    return function((x,), (op("cast", i, x=x, dtype="int32"), hot), (y,))


class TestFolding:
    @pytest.mark.parametrize("kind", ["concat", "stack"])
    def test_doubled_constants(self, kind: str) -> None:
        """Some doublings are folded; those beyond the budget are left to run time, at no cost."""
        tracemalloc.start()
        bound = bind(_doubling(kind, 20), OPS, budget=_SMALL)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        folded = [view.outputs[0].constant is not None for view in bound.graph.ops[:-1]]
        count = sum(folded)
        assert 8 < count < 16
        assert folded == [True] * count + [False] * (21 - count)
        assert peak < 4 * _MB

    def test_repeated_joins(self) -> None:
        """A constant that is halved and joined again keeps its size, but doubles the work of each step."""
        half, whole = tensor(1024), tensor(2048)
        ops = [const("c", np.ones(2048, np.float32))]
        for index in range(40):
            parts = tuple(value(f"{name}{index}", half) for name in "ab")
            ops.append(op("split", parts, x=ops[-1].outputs[0], num_splits=2, axis=0))
            joined = value(f"c{index}", whole)
            ops.append(op("concat", joined, values=parts[::-1], axis=0, interleave=False))
        x, y = value("x", tensor(1)), value("y", whole)
        bound = bind(function((x,), (*ops, op("add", y, x=ops[-1].outputs[0], y=x)), (y,)), OPS)
        constants = [view.outputs[0].constant for view in bound.graph.ops]
        assert constants[5] is not None
        assert constants[-2] is None

    def test_total(self) -> None:
        """Many constants that are affordable alone are not affordable together."""
        c = const("c", np.ones(2**17, np.float32))
        last = c.outputs[0]
        tiled = [
            op("concat", value(f"t{i}", tensor(2**19)), values=(last,) * 4, axis=0, interleave=False)
            for i in range(400)
        ]
        x, y = value("x", tensor(1)), value("y", tensor(2**19))
        main = function((x,), (c, *tiled, op("add", y, x=tiled[-1].outputs[0], y=x)), (y,))
        views = bind(main, OPS, budget=_SMALL).graph.ops
        folded = sum(view.op.type == "concat" and view.outputs[0].constant is not None for view in views)
        assert folded == (256 * _MB + 256 * 4096) // (2 * _MB)

    def test_unfolded_constants_are_computed_at_run_time(self) -> None:
        model = _model(_doubling("concat", 14))
        program = lower_function(model).program
        assert program.weights_bytes < 2**24 * 4
        assert "Concat" in {node.op_type for node in program.model.graph.node}

    def test_dimensions(self) -> None:
        bound = bind(_doubling("stack", 40), OPS)
        assert any("more than 32 dimensions" in problem for _, problem in bound.problems)


class TestLowering:
    def test_constants_from_lengths(self) -> None:
        with pytest.raises(UnsupportedModelError, match=r"one_hot .*a constant of 17\.2 GB; the limit"):
            lower_function(_model(_one_hot(2**31 - 1)))

    def test_parts(self) -> None:
        """As many parts as elements are not listed if the operation has one result."""
        x, y = value("x", tensor(2**31 - 1)), value("y", tensor(1))
        main = function((x,), (op("split", (y,), x=x, num_splits=2**31 - 1, axis=0),), (y,))
        assert "cannot be split" in bind(main, OPS).problems[0][1]

    def test_windows(self) -> None:
        x, y = value("x", tensor(2**30)), value("y", tensor(2**29, 2**29))
        windows = op("sliding_windows", y, x=x, axis=0, size=2**29, stride=1)
        tracemalloc.start()
        bind(function((x,), (windows,), (y,)), OPS)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < _MB

    def test_unpacked_weights(self) -> None:
        """Many weights that are unpacked from the same bytes exceed the budget."""
        packed = const("p", np.zeros(2**21, np.uint8))
        weights = [
            op(
                "constexpr_lut_to_dense",
                value(f"w{i}", tensor(2**24)),
                indices=packed.outputs[0],
                lut=np.ones(2, np.float32),
                shape=np.array([2**24], np.uint32),
            )
            for i in range(40)
        ]
        x, y = value("x", tensor(2**24)), value("y", tensor(2**24))
        sums = [op("add", value(f"s{i}", tensor(2**24)), x=x, y=w.outputs[0]) for i, w in enumerate(weights)]
        main = function((x,), (packed, *weights, *sums, op("relu", y, x=sums[-1].outputs[0])), (y,))
        with pytest.raises(UnsupportedModelError, match="more memory than the size of the model allows"):
            lower_function(_model(main, size_bytes=2**21))


@pytest.mark.parametrize(
    "main",
    [
        _result("fill", 2**31 - 1, shape=np.array([2**31 - 1], np.int32), value=1.0),
        _result("tile", 2**31 - 1, x=np.ones(1, np.float32), reps=np.array([2**31 - 1], np.int32)),
        _result("range_1d", 2**31 - 1, start=0.0, end=float(2**31), step=1.0),
    ],
    ids=["fill", "tile", "range_1d"],
)
def test_export_of_huge_values(main: ir.Function, tmp_path: Path) -> None:
    """The export does not compute them, and neither does ONNX's inference of shapes."""
    coremlscope.export(_model(main), tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx").stat().st_size < 10_000


class TestRunning:
    @pytest.fixture(autouse=True)
    def _limited(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(budgets, "machine_memory_bytes", lambda: 64 * _MB)

    def test_values_that_do_not_fit(self) -> None:
        main = _result("fill", 2**28, shape=np.array([2**28], np.int32), value=1.0)
        with pytest.raises(UnsupportedModelError, match=r"\(fill\) takes 4 times 1\.07 GB, but this machine"):
            coremlscope.predict(_model(main), {"x": np.ones(1, np.float32)})

    def test_inputs_that_do_not_fit(self) -> None:
        x, y = value("x", tensor(2**24 + 1)), value("y", tensor(2**24 + 1))
        with pytest.raises(UnsupportedModelError, match=r"the input 'x' takes 67\.1 MB"):
            coremlscope.predict(
                _model(function((x,), (op("relu", y, x=x),), (y,))), {"x": np.zeros(2**24 + 1, np.float32)}
            )

    def test_synthetic_inputs(self) -> None:
        from coremlscope.model.features.dummy import dummy_values

        feature = ir.Feature("x", ir.ArrayFeature(dtype=ir.DType.FP32, shape=(2**30,)))
        with pytest.raises(InputError, match="the input 'x' is too large to generate: 1073741824"):
            dummy_values(ir.FunctionDescription(inputs=(feature,), outputs=()))


def _no_memory(*_: object, **__: object) -> None:
    raise MemoryError


class TestMemoryErrors:
    def test_engine(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from coremlscope.runtime.engines import onnxruntime as engine

        monkeypatch.setattr(engine, "_session_options", lambda *_: None)
        monkeypatch.setattr("onnxruntime.InferenceSession", _no_memory)
        with pytest.raises(EngineError, match="needs more memory than is free"):
            engine._create(b"", None)

    def test_weights(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ir.Immediate, "numpy", _no_memory)
        c = const("c", np.ones(2**12, np.float32))
        x, y = value("x", tensor(1)), value("y", tensor(2**12))
        main = function((x,), (c, op("add", y, x=x, y=c.outputs[0])), (y,))
        with pytest.raises(UnsupportedModelError, match="does not fit in memory"):
            coremlscope.predict(_model(main), {"x": np.ones(1, np.float32)})

    def test_command_line(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        from coremlscope.cli import main

        monkeypatch.setattr("coremlscope.api.read", _no_memory)
        (tmp_path / "m.mlmodel").write_bytes(b"")
        assert main(["inspect", str(tmp_path / "m.mlmodel")]) == 1
        assert "there is not enough memory" in capsys.readouterr().err


def test_memory_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    budgets.machine_memory_bytes.cache_clear()
    assert budgets.machine_memory_bytes() > 64 * _MB
    (tmp_path / "max").write_text("max\n")
    (tmp_path / "some").write_text("123000000\n")
    monkeypatch.setattr(budgets, "_CGROUP_LIMITS", (tmp_path / "max", tmp_path / "some", tmp_path / "none"))
    budgets.machine_memory_bytes.cache_clear()
    assert budgets.machine_memory_bytes() == 123_000_000
    budgets.machine_memory_bytes.cache_clear()


@pytest.mark.parametrize("build", [converted_program, deep_network])
def test_operations_beyond_memory(build: Callable[[int], bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "machine_memory_bytes", lambda: _MB)
    container.read(build(100))
    with pytest.raises(UnsupportedModelError, match="200 operations take"):
        container.read(build(200))
