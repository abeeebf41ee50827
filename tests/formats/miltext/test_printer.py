"""MIL text, compared with the output of Apple's compiler and the patterns in coremltools' tests."""

from __future__ import annotations

from pathlib import Path

import msgspec.structs
import numpy as np
import pytest

from coremlscope.formats import container, miltext, packaging
from coremlscope.model import ir
from tests.support.constant_programs import linear_model, model_of

_COMPILED = (
    "FluidInference__FluidAudio/streaming_encoder",
    "FluidInference__FluidAudio/streaming_encoder-2",
    "FluidInference__mobius/silero-vad-unified-256ms-v6.0.0",
    "FluidInference__mobius/silero-vad-unified-v6.0.0",
    "FluidInference__mobius/unified_256ms_int8",
    "FluidInference__mobius/unified_256ms_palette_4bit",
    "FluidInference__mobius/unified_256ms_palette_6bit",
    "FluidInference__mobius/unified_256ms_palette_8bit",
    "FluidInference__mobius/unified_256ms_pruned_int8",
)


def _text(model: ir.Model, opset: str = "CoreML7") -> str:
    assert isinstance(model.content, ir.Program)
    main = msgspec.structs.replace(model.content.functions["main"], opset=opset)
    return miltext.print_program(msgspec.structs.replace(model.content, functions={"main": main}))


@pytest.mark.corpus
@pytest.mark.parametrize("name", _COMPILED)
def test_text_agrees_with_the_compiled_model(corpus: Path, name: str) -> None:
    model = container.read(corpus / "models" / f"{name}.mlpackage")
    assert isinstance(model.content, ir.Program)
    compiled = (corpus / "models" / f"{name}.mlmodelc" / "model.mil").read_text(encoding="utf-8")
    # The compiler adds its versions to the build information.
    theirs = [line for line in compiled.splitlines() if not line.startswith("[buildInfo")]
    printed = miltext.print_program(model.content)
    assert [line for line in printed.splitlines() if not line.startswith("[buildInfo")] == theirs


def test_stored_constants_are_references(tmp_path: Path) -> None:
    weight = ir.constant(np.arange(500, dtype=np.float32))
    packaging.write_mlpackage(model_of({"c": weight}), tmp_path / "m.mlpackage")
    model = container.read(tmp_path / "m.mlpackage")
    assert (
        'tensor<fp32, [500]> c = const()[name = tensor<string, []>("c"), val = tensor<fp32, [500]>(BLOBFILE('
        'path = tensor<string, []>("@model_path/weights/weight.bin"), offset = tensor<uint64, []>(64)))];'
    ) in _text(model)
    assert (
        'tensor<fp32, [500]> c = const()[name = string("c"), val = tensor<fp32, [500]>(BLOBFILE('
        'path = string("@model_path/weights/weight.bin"), offset = uint64(64)))];'
    ) in _text(model, "CoreML8")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "bool(true)"),
        (-3, "int32(-3)"),
        (np.float16(0.1), "fp16(0x1.998p-4)"),
        (0.0, "fp32(0x0p+0)"),
        (-10000.0, "fp32(-0x1.388p+13)"),
        (np.float32(1e-45), "fp32(0x1p-149)"),
        (np.float32("inf"), "fp32(inf)"),
        (np.float64("-inf"), "fp64(-inf)"),
        ('a "b"\\\n', 'string("a \\"b\\"\\\\\\n")'),
        ([[1, 2], [3, 4]], "tensor<int32, [2, 2]>([[1, 2], [3, 4]])"),
        ([True, False], "tensor<bool, [2]>([true, false])"),
        (np.empty(0, np.float32), "tensor<fp32, [0]>([])"),
    ],
)
def test_constants(value: object, text: str) -> None:
    assert f'= const()[name = string("c"), val = {text}];' in _text(
        model_of({"c": ir.constant(value)}), "CoreML8"
    )


def test_nested_constants() -> None:
    one, two = ir.constant("one"), ir.constant("two")
    members = ir.Nested((one, two))
    string = one.type
    constants = {
        "l": ir.Constant(ir.ListType(string, 2), members),
        "t": ir.Constant(ir.TupleType((string, string)), members),
        "d": ir.Constant(ir.DictType(string, string), ir.Nested((two, one, one, two))),
    }
    text = _text(model_of(constants), "CoreML8")
    assert 'val = list<string, 2>(["one", "two"])]' in text
    assert 'val = tuple<string, string>(("one", "two"))]' in text
    assert 'val = dict<string, string>({{"one", "two"}, {"two", "one"}})]' in text


def test_states_and_unknown_sizes() -> None:
    model = model_of({})
    assert isinstance(model.content, ir.Program)
    main = model.content.functions["main"]
    state = ir.Value("s", ir.StateType(ir.TensorType(ir.DType.FP16, (1, None))))
    write = ir.Op(
        id="main/0", type="write_state", inputs={"input": (state,), "data": main.graph.inputs}, outputs=()
    )
    join = ir.Op(
        id="main/1",
        type="concat",
        inputs={"values": main.graph.inputs * 2},
        outputs=(ir.Value("y", ir.TensorType(ir.DType.FP32, None)),),
    )
    graph = msgspec.structs.replace(main.graph, inputs=(*main.graph.inputs, state), ops=(write, join))
    program = msgspec.structs.replace(
        model.content, functions={"main": msgspec.structs.replace(main, graph=graph)}
    )
    text = miltext.print_program(program)
    assert "func main<ios17>(state<tensor<fp16, [1, ?]>> s, tensor<fp32, [1, 4]> x) {" in text
    assert "\n            write_state(data = x, input = s);\n" in text
    assert "tensor<fp32, [...]> y = concat(values = (x, x));" in text


def test_blocks() -> None:
    assert _text(linear_model(), "CoreML8").splitlines()[-9:] == [
        '            tensor<fp32, [1, 4]> y = cond(pred = flag)[name = string("branch")]',
        "                true() {",
        "                    tensor<fp32, [1, 4]> then = relu(x = x);",
        "                } -> (then),",
        "                false() {",
        "                    tensor<fp32, [1, 4]> otherwise = tanh(x = x);",
        "                } -> (otherwise);",
        "        } -> (y);",
        "}",
    ]
