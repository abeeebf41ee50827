from __future__ import annotations

import io
import json
import tracemalloc
from collections.abc import Iterator

import pytest

from coremlscope.studies.doctor.log import _LONGEST_LINE, LogReport, examine_log, known_operations

_COMPILE = "E5RT encountered an STL exception. msg = MILCompilerForANE error: ANECCompile() FAILED."


def _examine(text: str | bytes) -> LogReport:
    return examine_log(io.BytesIO(text.encode() if isinstance(text, str) else text), "app.log")


def _ids(report: LogReport) -> list[str]:
    return [found.failure.id for found in report.found]


def test_lines_are_counted_and_numbered() -> None:
    report = _examine(f"start\n{_COMPILE}\nmore\n{_COMPILE}\nThe end")
    assert (report.path, report.lines) == ("app.log", 5)
    (found,) = report.found
    assert (found.failure.id, found.first_line, found.lines) == ("neural-engine-compiler-compile", 2, 2)
    assert found.text == _COMPILE
    assert report.unexplained == 0


@pytest.mark.parametrize(
    ("text", "lines"), [("", 0), ("a", 1), ("a\n", 1), ("a\nb", 2), ("\n\n", 2), ("a\r\nb\r\n", 2)]
)
def test_numbers_of_lines(text: str, lines: int) -> None:
    assert _examine(text).lines == lines


@pytest.mark.parametrize(
    ("line", "op"),
    [
        ("Unsupported op 12 (logical_or): no engine path", "logical_or"),
        ('Unsupported MIL operation "logical_and"', "logical_and"),
        ("doesn't support Neuron ZinIrNeuronType::kSin", "sin"),
        ("In tile operations, tensors x[0] and output must have the same data type", "tile"),
        ("ANECCompile() FAILED at ios17.conv:107:12", "conv"),
        ("in operation gather_1: Required param 'validate_indices' is missing", "gather_1"),
        ("ios16.slice_by_index: zero shape error", "slice_by_index"),
    ],
)
def test_operations_that_lines_name(line: str, op: str) -> None:
    (found,) = _examine(line).found
    assert list(found.ops) == [op]


def test_operations_with_rules() -> None:
    assert known_operations(["sin", "gather_1", "\x1b"]) == ["sin"]


def test_first_loads_of_minutes() -> None:
    assert _ids(_examine("model load: 212.4 s")) == ["slow-first-load"]
    assert _ids(_examine("Compiled encoder in 3 minutes")) == ["slow-first-load"]
    assert _ids(_examine("model load: 59.9 s\nloaded in 0.5 min")) == []


def test_log_stream_compact() -> None:
    line = f"2026-05-09 12:00:00.123 E  python[1656:43980] [com.apple.coreml:plan] {_COMPILE}"
    (found,) = _examine(line).found
    assert found.process == "python"


def test_log_stream_ndjson() -> None:
    event = {
        "eventMessage": "Error: resources.bin missing at file:///a\u001b[31m",
        "processImagePath": "/usr/bin/app",
        "subsystem": "com.apple.coreml",
    }
    (found,) = _examine(json.dumps(event)).found
    assert (found.failure.id, found.process) == ("half-written-cache", "app")
    assert found.text == "Error: resources.bin missing at file:///a\\x1b[31m"


@pytest.mark.parametrize(
    "line",
    [
        '{"eventMessage": ["ANECCompile() FAILED"], "processImagePath": 3}',
        '{"eventMessage": "ANECCompile() FAILED", "processImagePath": 3}',
        '{"eventMessage": "ANECCompile() FAILED',
        '{"eventMessage":' + "[" * 5000 + '"ANECCompile() FAILED"',
    ],
)
def test_damaged_json(line: str) -> None:
    assert _ids(_examine(line)) == ["neural-engine-compiler-compile"]


def test_trouble_that_no_row_explains() -> None:
    report = _examine(
        "\n".join(f"[coreml] error {n} of a new kind" for n in range(9)) + "\nerror: disk\n[coreml] ok"
    )
    (found,) = report.found
    assert (found.failure.id, found.lines, found.first_line) == ("swift-client-predict", 9, 1)
    assert found.reason == "error 0 of a new kind"
    assert report.unexplained == 0


@pytest.mark.parametrize(
    "text",
    [
        "3   CoreML  0x1d0589b58 -[MLNeuralNetworkEngine predictionFromFeatures:options:error:] + 412",
        "  8601 -[MLNeuralNetworkEngine predictionFromFeatures:options:error:]  (in CoreML) + 123",
        "frame 3: CoreML -[MLNeuralNetworkEngine predictionFromFeatures:options:error:]",
        "* thread #1, queue = 'com.apple.main-thread', stop reason = breakpoint 1.1\n"
        "    frame #0: 0x1 CoreML`-[MLModel predictionFromFeatures:error:] + 4",
        "Thread 1:\n0  CoreML  0x1 -[MLModel x] + 4\n" + "[coreml] predicted\n" * 60,
    ],
)
def test_a_sound_stack_is_no_trouble(text: str) -> None:
    report = _examine(text)
    assert report.found == ()
    assert report.samples == ()


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        (
            "* thread #1, queue = 'com.apple.main-thread', stop reason = EXC_BAD_ACCESS (code=1)\n"
            "    frame #0: 0x1bb52711c libsystem_platform.dylib`_platform_memmove + 76\n"
            "    frame #1: 0x1d0589b58 Espresso`EspressoLight::espresso_plan::__copy_inputs(x) + 1436\n"
            "  thread #2\n    frame #0: 0x1 AppleNeuralEngine`-[_ANEClient x] + 4\n",
            ["crash-in-core-ml"],
        ),
        (
            "Triggered by Thread: 3, Dispatch Queue: com.apple.CoreMLBatchProcessingQueue",
            ["prediction-crash"],
        ),
        ("Crashed: com.apple.e5rt.concurrentExecutionQueue", ["prediction-crash"]),
        ("Thread 4 Crashed:: Dispatch queue: com.apple.anef.p4", ["crash-on-neural-engine"]),
        (
            "Thread 8 Crashed:\n4   Metal   \t 0x1922ad870 MTLReportFailure.cold.1 + 48\n"
            "6   MetalPerformanceShadersGraph  \t 0x221244c80 -[MPSGraphExecutable init] + 300\n",
            ["crash-on-gpu"],
        ),
        (
            "Thread 10 Crashed:\n0   libdispatch.dylib               0x3305070c0         leave.cold.1\n"
            "3   Espresso               0x35bb2f154         EspressoLight::espresso_plan::submit_ane\n",
            ["crash-in-core-ml"],
        ),
        (
            "crash stack:\n0  Espresso    0x1b3d38c10 Espresso::cpu_context_transfer_algo_t::check(x)\n",
            ["crash-in-core-ml"],
        ),
        ("    frame #5: 0x2423f4414 libBNNS.dylib`BNNSGraphContextExecute_v2 + 480", ["bnns-execute"]),
        ("SIGSEGV in libBNNS vadd_fp16_sme_internal", ["bnns-matrix-unit"]),
    ],
)
def test_stacks_of_crashes_in_texts(text: str, ids: list[str]) -> None:
    assert _ids(_examine(text)) == ids


def test_the_kernel_of_a_crash_is_named() -> None:
    (found,) = _examine(
        "Crashed: main\n6  Espresso  0x20fa0 E::inner_product_kernel::__launch(x) + 5744"
    ).found
    assert found.details == {"kernel": "inner_product_kernel"}


def test_a_text_that_is_not_known_is_said_to_be_unknown() -> None:
    report = _examine('[Espresso::handle_ex_plan] exception=Espresso exception: "Odd": a new complaint 42')
    (found,) = report.found
    assert (found.failure.is_general, found.reason) == (True, "a new complaint 42")
    report = _examine("Odd new limit exceeded (5 > 3)")
    assert (report.found, report.samples) == ((), ((1, "Odd new limit exceeded (5 > 3)"),))


def test_known_causes_come_before_texts_that_pass_them_on() -> None:
    text = "[coreml] Error plan build: -1.\n[espresso] [Espresso::overflow_error] a.mlmodelc:3\n"
    assert _ids(_examine(text)) == ["fp16-overflow", "espresso-load"]


def test_binary_content() -> None:
    report = _examine(bytes(range(256)) * 64 + b"\n\x1b[2J\x9b\xff ANECCompile() FAILED \x00\x07\n")
    (found,) = report.found
    assert found.text == "\\x1b[2J\\x9b\\xff ANECCompile() FAILED \\x00\\x07"
    assert all(character.isprintable() for character in found.text)


def test_long_lines_are_read_in_pieces() -> None:
    report = _examine("x" * (3 * _LONGEST_LINE) + " ANECCompile() FAILED\nsecond: Killed: 9")
    assert report.lines == 2
    assert [(found.failure.id, found.first_line) for found in report.found] == [
        ("killed", 2),
        ("neural-engine-compiler-compile", 1),
    ]
    assert len(report.found[0].text) <= 240


class _Endless(io.RawIOBase):
    """A log that is made while it is read."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines = lines

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        line = next(self._lines, b"")
        memoryview(buffer)[: len(line)] = line  # type: ignore[arg-type]
        return len(line)


def test_memory_does_not_grow_with_the_log() -> None:
    lines = (f"Unsupported op {n} (op_{n}): E5RT: error {n} {'x' * 900}\n".encode() for n in range(300))
    tracemalloc.start()
    try:
        report = examine_log(io.BufferedReader(_Endless(lines)), "-")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert report.lines == 300
    (found,) = report.found
    assert (found.lines, len(found.ops)) == (300, 20)
    assert peak < 1e5


@pytest.mark.parametrize(
    ("line", "has_stacks"),
    [
        ("    + 230 -[_ANEClient evaluate]  (in AppleNeuralEngine) + 12  [0x10]", True),
        ("2   Espresso  0x10a2b3c4d Espresso::forward() + 88", True),
        (_COMPILE, False),
    ],
)
def test_call_stacks_are_noticed(line: str, has_stacks: bool) -> None:
    assert _examine(f"start\n{line}\n").has_stacks == has_stacks
