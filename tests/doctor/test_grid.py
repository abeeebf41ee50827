"""Who wrote a line of a log, and when."""

from __future__ import annotations

import io

import pytest

from coremlscope.planning.hazards.lines import FAILURES, Failure
from coremlscope.studies.doctor.explain import contradicts, explain_line, explain_place
from coremlscope.studies.doctor.grid import _PHASES, CELLS, COMPONENTS, locate
from coremlscope.studies.doctor.log import examine_log
from coremlscope.studies.doctor.quoted import HAZARD_LINES, QUOTED

#: Lines of public logs, names replaced.
_LINES = {
    'Error Domain=com.apple.appleneuralengine Code=53 "createProgramInstanceForModel: Program load failed"': (
        "Neural Engine driver",
        "load",
    ),
    "failed assertion `Error occurred when loading ANE module:": ("Neural Engine driver", "load"),
    "ANEProgramProcessRequestDirect() Failed with status=0xf : statusType=0x11: Program Inference timeout": (
        "Neural Engine driver",
        "predict",
    ),
    "[client] doUnloadModel:options:qos:error:: nil _ANEModel": ("Neural Engine driver", "chatter"),
    "E5RT encountered an STL exception. msg = MILCompilerForANE error: failed to compile ANE model using"
    " ANEF."
    " Error=_ANECompiler : ANECCompile() FAILED.": ("Neural Engine compiler", "compile"),
    "Strides of Conv needs to be product of at most 2 interleave factors": (
        "Neural Engine compiler",
        "compile",
    ),
    "GPU::ScaledDotProductAttentionOpHandler::encodeNDArrayOp": ("MPSGraph", "predict"),
    "unhandled platform for MPSGraph serialization": ("MPSGraph", "load"),
    "E5RT: Error(s) occurred executing a BNNS Op: something": ("BNNS", "predict"),
    "BNNS Graph Compile: Function main has tensor x as both an input and output.": ("BNNS", "compile"),
    "Failed to build the model execution plan using a model architecture file '/a.mlmodelc/model.mil' with"
    " error"
    " code: -14.": ("E5RT", "load"),
    "MIL->EIR translation error at /a.mlmodelc/model.mil:7:12: std::bad_cast": ("E5RT", "compile"),
    "E5RT: Submit Async failed for the program: it has timed out": ("E5RT", "predict"),
    "[coreml] Error plan build: -1.": ("Espresso", "load"),
    'Espresso exception: "Invalid state": Cannot squeeze a dimension whose value is not 1': (
        "Espresso",
        "predict",
    ),
    "[coreml] Error computing NN outputs -1": ("Espresso", "predict"),
    "Error reading protobuf spec. validator error: Layer 'b' consumes an input named 'x'": (
        "validator",
        "load",
    ),
    'Error compiling model: "compiler error:  Error saving network to file.".': ("coremlc", "compile"),
    "Backend CoreMLBackend is not registered.": ("ExecuTorch", "load"),
    "Status Message: Non-zero status code returned while running 1_CoreML_3 node. onnxruntime": (
        "ONNX Runtime",
        "predict",
    ),
    "[V:onnxruntime:, gemm_op_builder.cc:149 IsOpSupportedImpl] Only support transA == 0": (
        "ONNX Runtime",
        "chatter",
    ),
    "RuntimeError: PyTorch convert function for op 'x' not implemented.": ("converter", "convert"),
    "You will not be able to run predict() on this Core ML model.": ("converter", "load"),
    "Torch version 2.9.0 has not been tested with coremltools.": ("converter", "chatter"),
    'Error Domain=com.apple.CoreML Code=0 "nil value for URL"': ("Swift client", "load"),
    "MultiArray shape (1 x 236) does not match the shape (1 x 256) specified in the model description": (
        "Swift client",
        "predict",
    ),
}


@pytest.mark.parametrize("line", _LINES)
def test_component_and_phase(line: str) -> None:
    place = locate(line)
    assert place is not None
    assert (place.component, place.phase) == _LINES[line]


@pytest.mark.parametrize(
    "line", ["", "the voice is loud", "1.137 s", "row 137 of 200", "GET /index.html 200"]
)
def test_lines_of_others(line: str) -> None:
    assert locate(line) is None


def test_every_place_has_a_cell() -> None:
    for component in COMPONENTS:
        phases = {phase for phase, _ in _PHASES[component]} | {"chatter"}
        assert all((component, phase) in CELLS for phase in phases)
    assert 35 <= len(CELLS) <= 45


@pytest.mark.parametrize("row", [*FAILURES, *HAZARD_LINES, *QUOTED.values()], ids=lambda row: row.id)
def test_no_row_contradicts_its_cell(row: Failure) -> None:
    for example in row.examples:
        place = locate(example)
        assert place is None or not contradicts(row, place), (example, str(place), row.fix)


def test_a_line_is_explained_by_its_place_where_no_row_does() -> None:
    assert explain_line("E5RT: ios17.conv failed") == []
    hit = explain_place("E5RT: ios17.conv failed")
    assert hit is not None
    assert (hit.failure.id, hit.op, hit.failure.is_general) == ("e5rt-load", "conv", True)


def test_what_a_caller_says_around_the_neural_engine_is_no_failure_of_the_gpu() -> None:
    text = (
        "failed assertion `Error occurred when loading ANE module:\n"
        '  Error Domain=MPSGraph Code=-1 "could not load module from MPSGraphPackage"'
    )
    report = examine_log(io.BytesIO(text.encode()), "app.log")
    assert [found.failure.id for found in report.found] == ["neural-engine-driver-load"]
    assert report.unexplained == 0


@pytest.mark.parametrize(
    ("line", "is_known"),
    [
        ('NSUnderlyingError = "Error Domain=com.apple.CoreML Code=0 \\"(null)\\"";', False),
        ('NSUnderlyingError=0x6000 {Error Domain=com.apple.CoreML Code=0 "(null)"}', False),
        ('Error Domain=com.apple.CoreML Code=0 "Unable to load."', True),
        ('NSUnderlyingError=0x6000 {Error Domain=com.apple.CoreML Code=0 "Failed to load"}', True),
    ],
)
def test_nothing_is_known_of_an_error_without_words(line: str, is_known: bool) -> None:
    assert (locate(line) is not None) == is_known
