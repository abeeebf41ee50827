"""What is compressed or made float16 here is equal to what coremltools makes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope.formats import container
from coremlscope.model import ir
from coremlscope.planning.rewrites.transforms import Transform, parse_transform
from coremlscope.studies.variants import coremltools_steps
from coremlscope.studies.variants.compression import compress
from coremlscope.studies.variants.coremltools_steps import needs_coremltools, transform_file

_SINGLE = (
    *("int8", "int8-tensor", "int4", "int4-block-32", "prune-33.3"),
    *("palettize-1", "palettize-3", "palettize-4", "palettize-8"),
)
_JOINT = ("prune-50+int8", "prune-75+palettize-4", "palettize-4+int8-tensor", "prune-50+int4-block-16")
#: coremltools fails to compress a weight twice whose channels are not known.
_CASES = (
    *(("fp16", name) for name in (*_SINGLE, *_JOINT)),
    *(("fp32", name) for name in ("int8", "palettize-4", "prune-50", "prune-50+int8")),
    *(("fp32", name) for name in ("fp16", "fp16+int4", "fp16+palettize-4")),
    *(("numbers", name) for name in ("fp16", "fp16+prune-50")),
    *(("shared", name) for name in ("int8", "int8-tensor", "int4-block-32", "palettize-4")),
)


def _weight(*shape: int) -> Any:
    return (np.random.default_rng(shape).standard_normal(shape) / 8).astype(np.float32)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Weights on each axis, a vector, a small one, and perhaps one that is read along several axes."""
    folder = tmp_path_factory.mktemp("sources")

    @cache
    def made(kind: str) -> Path:
        @mb.program(input_specs=[mb.TensorSpec(shape=(1, 24, 16, 16))], opset_version=ct.target.iOS15)
        def program(x: Any) -> Any:
            y = mb.conv(x=x, weight=_weight(48, 24, 3, 3), bias=_weight(48), pad_type="same")
            y = mb.conv_transpose(x=y, weight=_weight(48, 16, 4, 4), strides=[2, 2])
            y = mb.conv(x=y, weight=_weight(4, 16, 1, 1))
            y = mb.reshape(x=y, shape=[-1, 34])
            y = mb.matmul(x=y, y=_weight(64, 34), transpose_y=True)
            y = mb.matmul(x=mb.matmul(x=y, y=_weight(64, 160)), y=_weight(160, 64))
            if kind == "numbers":
                # Small and infinite ones, an input that is read twice, and an output that is read inside.
                y = mb.real_div(x=y, y=mb.add(x=mb.reduce_sum(x=x, keep_dims=False), y=np.float32(1e-9)))
                mask = np.where(np.arange(64) > 60, -np.inf, 0).astype(np.float32)
                first = mb.softmax(x=mb.add(x=y, y=mask), axis=-1, name="first")
                return first, mb.mul(x=first, y=np.float32(0.1), name="second")
            if kind == "shared":
                y = mb.linear(x=mb.matmul(x=y, y=_weight(64, 64)), weight=_weight(64, 64))
            return mb.add(x=y, y=mb.reduce_sum(x=_weight(5000), axes=[0]), name="y")

        model = ct.convert(
            program,
            convert_to="mlprogram",
            minimum_deployment_target=ct.target.iOS15,
            compute_precision=ct.precision.FLOAT32 if kind in ("fp32", "numbers") else ct.precision.FLOAT16,
            skip_model_load=True,
        )
        path = folder / f"{kind}.mlpackage"
        model.save(str(path))
        return path

    return made


def _content(path: Path) -> tuple[object, ...]:
    """What a package holds, without the order of operations and their names."""
    model = container.read(path)
    ((_, function),) = model.content.functions.items()
    held = {op.outputs[0].name: op.constant for op in function.graph.walk() if op.constant is not None}

    def shown(argument: ir.Argument) -> object:
        known = argument if isinstance(argument, ir.Constant) else held.get(argument.name)
        return argument.type if known is None else (known.type, str(known.numpy().tolist()))

    ops: Counter[object] = Counter()
    for op in function.graph.walk():
        if op.constant is None:
            given = {name: tuple(map(shown, several)) for name, several in op.inputs.items()}
            given |= {name: (shown(one),) for name, one in op.attributes.items() if name != "name"}
            ops[op.type, tuple(sorted(given.items())), tuple(one.type for one in op.outputs)] += 1
    return ops, model.spec_version, function.opset, model.description


def _made(source: Path, transform: Transform, folder: Path) -> tuple[object, ...] | str:
    folder.mkdir()
    target = folder / "made.mlpackage"
    try:
        notes, _ = transform_file(source, transform, target, shapes={}, samples=[], folder=folder)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return _content(target), notes


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # coremltools' percentile overflows in fp16
@pytest.mark.parametrize(("kind", "name"), _CASES)
def test_weights_are_those_of_coremltools(
    kind: str,
    name: str,
    sources: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, transform = sources(kind), parse_transform(name)
    assert not needs_coremltools(transform, container.read(source))
    own = _made(source, transform, tmp_path / "own")
    monkeypatch.setattr(coremltools_steps, "is_compressible", lambda *_: False)
    monkeypatch.setattr(coremltools_steps, "can_be_halved", lambda *_: False)
    assert own == _made(source, transform, tmp_path / "other")


@pytest.mark.parametrize("name", ["palettize-4+int8", "int8+palettize-4", "prune-50+fp16+int8", "ios18"])
def test_coremltools_applies_what_is_more_than_one_compression(
    name: str, sources: Callable[[str], Path]
) -> None:
    assert needs_coremltools(parse_transform(name), container.read(sources("fp16")))


def test_numbers_beyond_float16_are_left_to_coremltools(tmp_path: Path) -> None:
    @mb.program(input_specs=[mb.TensorSpec(shape=(1, 8))], opset_version=ct.target.iOS16)
    def program(x: Any) -> Any:
        return mb.mul(x=x, y=np.float32(1e5))

    model = ct.convert(
        program,
        minimum_deployment_target=ct.target.iOS16,
        compute_precision=ct.precision.FLOAT32,
        skip_model_load=True,
    )
    model.save(str(tmp_path / "m.mlpackage"))
    assert needs_coremltools(parse_transform("fp16"), container.read(tmp_path / "m.mlpackage"))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_left_to_coremltools(value: float, tmp_path: Path) -> None:
    weight = _weight(128, 128).astype(np.float16)
    weight[0, 0] = value

    @mb.program(input_specs=[mb.TensorSpec(shape=(1, 128))], opset_version=ct.target.iOS16)
    def program(x: Any) -> Any:
        return mb.linear(x=x, weight=weight.astype(np.float32))

    model = ct.convert(program, minimum_deployment_target=ct.target.iOS16, skip_model_load=True)
    model.save(str(tmp_path / "m.mlpackage"))
    read = container.read(tmp_path / "m.mlpackage")
    assert compress(read, parse_transform("palettize-4").steps) is None
