from __future__ import annotations

import pytest

from coremlscope.planning.placement.analytics import parse_analytics

HEAD = """program(1.3)
[buildInfo = dict<string, string>({{"coremlc-version", "1"}})]
{
    func main<ios18>(tensor_buffer<fp16, shape=[1, 8], strides=[8, 1]> x) [Launch_ane_ms = fp64(0x1p-3)] {
"""
TAIL = """        } -> (y);
}"""
SUPPORT = 'BackendSupport = list<string, 3>(["bnns", "classic_cpu", "ane"])'


def parsed(*lines: str):
    return parse_analytics(HEAD + "".join(f"            {line}\n" for line in lines) + TAIL)


def test_an_operation() -> None:
    (op,) = parsed(
        "tensor<fp16, [1, 8]> y_4D454D5F4F5054 = add(x = x, y = x)"
        f"[{SUPPORT}, EstimatedRuntime = dict<string, fp64>("
        '{{"ane", 0.5}, {"bnns", 6.25e-06}, {"classic_cpu", 0}}),'
        ' SelectedBackend = string("bnns"), milId = uint64(2), name = string("add_0")];'
    )
    assert (op.function, op.type, op.outputs) == ("main", "add", ("y",))
    assert op.selected == "bnns"
    assert op.estimated_ms == {"ane": 0.5, "bnns": 6.25e-06, "classic_cpu": 0.0}
    assert op.messages == {}


def test_messages_with_quotes_and_several_results() -> None:
    (op,) = parsed(
        "tensor<fp16, [16, 1, 64]> a, tensor<fp16, [1, 64]> b = lstm<ios17>(x = x)"
        f"[{SUPPORT}, EstimatedRuntime = dict<string, fp64>("
        '{{"bnns", 476.8}}), SelectedBackend = string("bnns"),'
        r' ValidationMessage = dict<string, string>({{"ane", "Unsupported MIL operation \"lstm\"."}}),'
        " milId = uint64(1)];"
    )
    assert op.outputs == ("a", "b")
    assert op.messages == {"ane": 'Unsupported MIL operation "lstm".'}


def test_conversions_without_an_estimate() -> None:
    (op,) = parsed(
        "tensor_buffer<fp16, shape=[1, 8], strides=[8, 1]> y = tensor_to_tensor_buffer<ios17>(input = z,"
        ' interleave_factors = tensor<uint8, [2]>([1, 1]))[BackendSupport = list<string, 1>(["unsupported"]),'
        ' SelectedBackend = string("classic_cpu"), milId = uint64(3)];'
    )
    assert (op.type, op.outputs, op.estimated_ms) == ("tensor_to_tensor_buffer", ("y",), {})


def test_a_state_is_written_without_a_result() -> None:
    (op,) = parsed(f'write_state(input = s, data = x)[{SUPPORT}, SelectedBackend = string("somebody_new")];')
    assert (op.type, op.outputs, op.selected) == ("write_state", (), None)


@pytest.mark.parametrize("text", ["", "program(1.3)\n{\n}", "[BackendSupport = ", "= [BackendSupport = x];"])
def test_other_text_holds_no_operation(text: str) -> None:
    assert parse_analytics(text) == []


def test_published_files(corpus) -> None:
    folder = corpus.parent / "knowledge" / "plan" / "analytics_samples"
    files = sorted(folder.glob("*.mil"))
    if not files:
        pytest.skip("no published files")
    found = {file.name.partition(".")[0]: parse_analytics(file.read_text()) for file in files}
    assert [op.type for op in found["conv3x3"]][:4] == ["tensor_buffer_to_tensor", "conv", "relu", "conv"]
    assert [op.selected for op in found["conv3x3"]][-2:] == ["classic_cpu", "classic_cpu"]
    assert found["lstm"][1].estimated_ms == {"bnns": 476.80945305249844, "classic_cpu": 548.43507929840905}
    assert found["gather_dyn"][4].messages == {"ane": 'Unable to resolve operation input "y".'}
