"""Every syntax of MIL text: types, constants, operations, blocks, functions and attributes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coremlscope.base.errors import UnsupportedModelError
from coremlscope.formats.miltext import parse_program
from coremlscope.formats.weights import BlobData
from coremlscope.model import ir
from tests.support.mil_programs import blob_opener

_STRING, _INT = (ir.TensorType(dtype, ()) for dtype in (ir.DType.STRING, ir.DType.INT32))
_VECTOR = ir.TensorType(ir.DType.INT32, (None,))


def _program(body: str, head: str = "program(1.3)", inputs: str = "tensor<fp32, [2]> x") -> ir.Program:
    return parse_program(f"{head}\n{{\n func main<ios18>({inputs}) {{\n{body}\n }} -> ();\n}}", blob_opener())


def _ops(body: str, **options: str) -> tuple[ir.Op, ...]:
    return _program(body, **options).functions["main"].graph.ops


def _constant(text: str) -> ir.Constant:
    (op,) = _ops(f"const()[val = {text}];")
    assert op.constant is not None
    return op.constant


@pytest.mark.parametrize(
    ("text", "dtype", "expected"),
    [
        ("int32(1)", ir.DType.INT32, 1),
        ("tensor<int32, []>(-7)", ir.DType.INT32, -7),
        ("int32(0x10)", ir.DType.INT32, 16),
        ("uint64(18446744073709551615)", ir.DType.UINT64, 2**64 - 1),
        ("int4(-8)", ir.DType.INT4, -8),
        ("bool(true)", ir.DType.BOOL, True),
        ("bool( false )", ir.DType.BOOL, False),
        ("fp16(0x1.998p-4)", ir.DType.FP16, np.float16(0.1)),
        ("fp16(-0x0p+0)", ir.DType.FP16, -0.0),
        ("fp16(0x1p-24)", ir.DType.FP16, 2.0**-24),
        ("fp32(0X1.8P1)", ir.DType.FP32, 3.0),
        ("fp32(1)", ir.DType.FP32, 1.0),
        ("fp32(1.5)", ir.DType.FP32, 1.5),
        ("fp64(6.31e-06)", ir.DType.FP64, 6.31e-06),
        ("fp64(-1E+3)", ir.DType.FP64, -1000.0),
        ("fp32(inf)", ir.DType.FP32, np.inf),
        ("fp32(-inf)", ir.DType.FP32, -np.inf),
        ("fp16(nan)", ir.DType.FP16, np.nan),
        ("fp16(-nan)", ir.DType.FP16, -np.nan),
        ("bf16(0x1.8p+0)", ir.DType.BF16, 1.5),
        ('string("a")', ir.DType.STRING, "a"),
        ('tensor<string, []>("")', ir.DType.STRING, ""),
    ],
)
def test_scalars(text: str, dtype: ir.DType, expected: object) -> None:
    constant = _constant(text)
    assert constant.type == ir.TensorType(dtype, ())
    array = constant.numpy()
    wanted = np.array(expected, object if dtype is ir.DType.STRING else dtype.numpy)
    if dtype is ir.DType.STRING:
        assert array.tolist() == wanted.tolist()
    else:
        assert array.tobytes() == wanted.tobytes()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"\"quoted\"", '"quoted"'),
        (r"back\\slash", "back\\slash"),
        (r"\n\r\t\a\b\f\v", "\n\r\t\a\b\f\v"),
        (r"\'\?\/", "'?/"),
        (r"\x41\x42", "AB"),
        (r"\xc3\xa9", "é"),
        (r"\303\251", "é"),
        (r"\xff", "ÿ"),
        (r"\0", "\0"),
        (r"\u00e9\U0001F600", "é😀"),
        (r"\ud800", "\ufffd"),
        ("line\nbreak", "line\nbreak"),
        ("é // {[(<,;=>)]}", "é // {[(<,;=>)]}"),
        (r"\\n", "\\n"),
        (r"\\", "\\"),
    ],
)
def test_strings(text: str, expected: str) -> None:
    assert _constant(f'string("{text}")').item() == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tensor<int32, [2]>([1, -2])", [1, -2]),
        ("tensor<int32,[2]>([ 1,-2 ])", [1, -2]),
        ("tensor<int32, [0]>([])", []),
        ("tensor<int32, [2, 0]>([[], []])", [[], []]),
        ("tensor<fp16, [2, 1, 2]>([[[0x1p+0, 2]], [[3, 4]]])", [[[1, 2]], [[3, 4]]]),
        ("tensor<bool, [1, 2]>([[true, false]])", [[True, False]]),
        ('tensor<string, [2]>(["a, b", "]"])', ["a, b", "]"]),
        ('tensor<string, [1, 1]>([["a"]])', [["a"]]),
        ("tensor<int32, [?]>([4])", [4]),
        ("tensor<int32, [?, 2]>([[4, 5]])", [[4, 5]]),
    ],
)
def test_tensors(text: str, expected: list[Any]) -> None:
    constant = _constant(text)
    assert constant.numpy().tolist() == expected
    assert isinstance(constant.type, ir.TensorType)
    assert constant.type.shape == constant.numpy().shape


def test_empty_lists_keep_the_declared_shape() -> None:
    assert _constant("tensor<fp32, [0, 3]>([])").numpy().shape == (0, 3)


def _plain(constant: ir.Constant) -> Any:
    if isinstance(constant.data, ir.Nested):
        return [_plain(item) for item in constant.data.items]
    return constant.numpy().tolist()


@pytest.mark.parametrize(
    ("text", "type_", "expected"),
    [
        ("list<int32, 2>([1, 2])", ir.ListType(_INT, 2), [1, 2]),
        ('list<string, ?>(["a"])', ir.ListType(_STRING, None), ["a"]),
        ("list<tensor<int32, [2]>, ?>([[0, 4], [1, -1]])", None, [[0, 4], [1, -1]]),
        ("list<list<int32, ?>, 2>([[], [1]])", None, [[], [1]]),
        ('tuple<int32, string>((1, "a"))', ir.TupleType((_INT, _STRING)), [1, "a"]),
        ("tuple<tensor<int32, [2]>>(([1, 2]))", None, [[1, 2]]),
        ("dict<string, int32>({})", ir.DictType(_STRING, _INT), []),
        ('dict<string, int32>({{"a", 1}, {"b", 2}})', ir.DictType(_STRING, _INT), ["a", 1, "b", 2]),
        ('dict<string, tensor<int32, [?]>>({{"a", [1]}})', ir.DictType(_STRING, _VECTOR), ["a", [1]]),
        (
            "tuple<tuple<string, dict<string, tensor<int32, [?]>>>, tuple<string, dict<string, "
            'list<tensor<int32, [2]>, ?>>>>((("DefaultShapes", {{"x", [4]}}), '
            '("RangeDims", {{"x", [[0, 4]]}})))',
            None,
            [["DefaultShapes", ["x", [4]]], ["RangeDims", ["x", [[0, 4]]]]],
        ),
    ],
)
def test_nested_constants(text: str, type_: ir.ValueType | None, expected: list[Any]) -> None:
    constant = _constant(text)
    assert _plain(constant) == expected
    assert type_ in (None, constant.type)


@pytest.mark.parametrize(
    "text",
    [
        'tensor<fp16, [9, 9]>(BLOBFILE(path = string("@model_path/weights/w.bin"), offset = uint64(64)))',
        'tensor<fp16,[9,9]>(BLOBFILE(offset=tensor<uint64,[]>(64),path=tensor<string,[]>("@model_path/weights/w.bin")))',
    ],
)
def test_references_to_weight_files(text: str) -> None:
    data = _constant(text).data
    assert isinstance(data, BlobData)
    assert (data.storage.name, data.offset) == ("@model_path/weights/w.bin", 64)
    assert data.type == ir.TensorType(ir.DType.FP16, (9, 9))


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("tensor<fp32, [1, ?]>", ir.TensorType(ir.DType.FP32, (1, None))),
        ("tensor<fp32, [...]>", ir.TensorType(ir.DType.FP32, None)),
        ("int8", ir.TensorType(ir.DType.INT8, ())),
        ("state<tensor<fp16, [8]>>", ir.StateType(ir.TensorType(ir.DType.FP16, (8,)))),
        ("list<tensor<fp32, [2]>, ?>", ir.ListType(ir.TensorType(ir.DType.FP32, (2,)), None)),
        (
            "tensor_buffer<fp16, shape=[1, 64], strides=[64, 1], interleave_factors=[1, 1]>",
            ir.TensorType(ir.DType.FP16, (1, 64)),
        ),
    ],
)
def test_types(text: str, type_: ir.ValueType) -> None:
    program = _program("", inputs=f"{text} x")
    assert program.functions["main"].graph.inputs == (ir.Value("x", type_),)


def test_operations() -> None:
    split, write, join = _ops(
        'tensor<fp32, [1]> a, tensor<fp32, [1]> b = split(axis = int32(0), x = x)[name = string("s")];'
        "write_state(data = a, input = x);"
        "tensor<fp32, [3]> y = concat<ios17>(axis = int32(0), values = (a, b, fp32(1)));"
    )
    assert [value.name for value in split.outputs] == ["a", "b"]
    assert (split.id, split.name, write.outputs) == ("main/0", "s", ())
    assert write.inputs["data"] == (split.outputs[0],)
    assert join.type == "concat"
    assert join.inputs["values"][:2] == split.outputs
    assert join.inputs["values"][2] == ir.constant(np.float32(1))


def test_unknown_operations_are_kept() -> None:
    (op,) = _ops('tensor<fp32, [2]> y = invented(x = x, mode = string("new"))[other = int32(1)];')
    assert (op.type, set(op.inputs), set(op.attributes)) == ("invented", {"x", "mode"}, {"other"})


def test_parameters_as_attributes() -> None:
    """As in programs up to iOS 17, where compressed weights are attributes."""
    (op,) = _ops(
        "tensor<fp32, [4]> c = constexpr_affine_dequantize()[axis = int32(0), quantized_data = "
        'tensor<int8, [4]>(BLOBFILE(path = string("@model_path/weights/weights.bin"), offset = uint64(64))), '
        "scale = fp32(0x1p-1), zero_point = int8(-1)];"
    )
    assert set(op.attributes) == {"axis", "quantized_data", "scale", "zero_point"}


_COND = """tensor<fp32, [2]> y = cond(pred = bool(true))%s
    %s(){ tensor<fp32, [2]> t = relu(x = x); } -> (t)%s
    %s{ } -> (x)%s;"""


@pytest.mark.parametrize(
    "parts",
    [
        ('[name = string("c")]', "true", ",", "false()", ""),
        ("", "true", ",", "false()", '[name = string("c")]'),
        ('[name = string("c")]', "anything", "", "", ""),
        ('[name = string("c")]', "", "", "()", ""),
        ('[name = string("c")]', "block true", "", "block false()", ""),
    ],
)
def test_blocks(parts: tuple[str, ...]) -> None:
    (op,) = _ops(_COND % parts)
    assert op.name == "c"
    assert [block.name for block in op.blocks] == ["true", "false"]
    assert op.blocks[0].ops[0].id == "main/0/true/0"
    assert op.blocks[1].outputs == op.blocks[0].ops[0].inputs["x"]


def test_loops() -> None:
    (op,) = _ops(
        """int32 i, tensor<fp32, [2]> y = while_loop(loop_vars = (int32(0), x))
            cond(int32 k, tensor<fp32, [2]> v) { bool more = less(x = k, y = int32(3)); } -> (more),
            body(int32 k, tensor<fp32, [2]> v)[note = string("n")] {
                int32 next = add(x = k, y = int32(1));
                tensor<fp32, [2]> twice = add(x = v, y = v);
            } -> (next, twice);"""
    )
    assert [block.name for block in op.blocks] == ["cond", "body"]
    assert [value.name for value in op.blocks[1].inputs] == ["k", "v"]
    assert op.blocks[1].attributes == {"note": ir.constant("n")}
    with pytest.raises(Exception, match="'t' is used before its definition"):
        _ops(_COND % ("", "true", ",", "false()", "") + " z(x = t);")


def test_functions_and_attributes() -> None:
    program = parse_program(
        """program(1.0)
[buildInfo = dict<tensor<string, []>, tensor<string, []>>({{"coremlc-version", "3500.32.1"}}), n = int32(1)]
{ func first<ios16>(tensor<fp16, [1]> x) [a = int32(1)] { } -> (x);
  func second<macos27>() { } -> ()
  func third(){}->(); }""",
        blob_opener(),
    )
    assert set(program.attributes) == {"buildInfo", "n"}
    assert [f.opset for f in program.functions.values()] == ["CoreML6", "macos27", ""]
    assert program.functions["first"].attributes == {"a": ir.constant(1)}


@pytest.mark.parametrize(
    ("version", "opset", "name"),
    [
        ("1.0", "ios15", "CoreML5"),
        ("1.1", "ios17", "CoreML7"),
        ("1.3", "ios18", "CoreML8"),
        ("1.9", "ios26", "CoreML9"),
    ],
)
def test_versions_and_operation_sets(version: str, opset: str, name: str) -> None:
    program = parse_program(f"program({version}) {{ func main<{opset}>() {{ }} -> (); }}", blob_opener())
    assert program.functions["main"].opset == name


def test_other_versions() -> None:
    with pytest.raises(UnsupportedModelError, match=r"version 2\.0 cannot be read"):
        parse_program("program(2.0) { func main<ios18>() { } -> (); }", blob_opener())


def test_byte_order_marks_are_skipped() -> None:
    text = "program(1.3) { func main<ios18>() { } -> (); }".encode("utf-8-sig")
    assert list(parse_program(text, blob_opener()).functions) == ["main"]


@pytest.mark.corpus
def test_plans_of_core_ml(corpus: Path) -> None:
    """analytics.mil is MIL text too, with constants as arguments and buffers."""
    files = sorted((corpus.parent / "knowledge" / "plan" / "analytics_samples").glob("*.mil"))
    if not files:
        pytest.skip("no published files")
    for file in files:
        ops = parse_program(file.read_bytes(), blob_opener()).functions["main"].graph.ops
        assert all({"BackendSupport", "SelectedBackend"} <= op.attributes.keys() for op in ops)
        assert all(op.type != "const" for op in ops)
