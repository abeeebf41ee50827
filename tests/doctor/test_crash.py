from __future__ import annotations

import io
import json
from typing import Any

import pytest

from coremlscope.studies.doctor.log import LogReport, examine_log

HEADER = {"app_name": "python3", "bug_type": "309", "os_version": "macOS 26.5 (25F71)", "name": "python3"}
BODY: dict[str, Any] = {
    "procName": "python3",
    "modelCode": "Mac16,10",
    "exception": {"type": "EXC_CRASH", "signal": "SIGABRT"},
    "termination": {"indicator": "Abort trap: 6", "namespace": "SIGNAL"},
    "asi": {"libsystem_c.dylib": ["failed assertion `shape.count = 0 != strides.count = 2'"]},
    "faultingThread": 1,
    "threads": [
        {"frames": []},
        {
            "queue": "com.apple.coreml.MLModelAssetResourceFactory.structureLoadQueue",
            "frames": [
                {"imageIndex": 0, "symbol": "__pthread_kill"},
                {"imageIndex": 1, "symbol": "MTLReportFailure"},
                {"imageIndex": 2, "symbol": "GetMPSGraphExecutable"},
                {"imageIndex": 9},
            ],
        },
    ],
    "usedImages": [
        {"name": "libsystem_kernel.dylib"},
        {"name": "Metal"},
        {"name": "MetalPerformanceShadersGraph"},
    ],
}


def report_bytes(body: object = BODY) -> bytes:
    """A crash report."""
    return json.dumps(HEADER).encode() + b"\n" + json.dumps(body, indent=2).encode() + b"\n"


def _examine(content: bytes) -> LogReport:
    return examine_log(io.BytesIO(content), "python3.ips")


def test_a_crash_report() -> None:
    report = _examine(report_bytes())
    crash = report.crash
    assert crash is not None
    assert (crash.process, crash.system, crash.device) == ("python3", "macOS 26.5 (25F71)", "Mac16,10")
    assert (crash.exception, crash.reason) == ("EXC_CRASH (SIGABRT)", "Abort trap: 6")
    assert crash.queue.endswith("structureLoadQueue")
    assert crash.frames == (
        "libsystem_kernel.dylib __pthread_kill",
        "Metal MTLReportFailure",
        "MetalPerformanceShadersGraph GetMPSGraphExecutable",
        "? ?",
    )
    ids = [found.failure.id for found in report.found]
    assert set(ids) == {"mpsgraph-predict", "crash-on-gpu", "structure-load-crash"}


@pytest.mark.parametrize(
    ("image", "symbol", "id_"),
    [
        ("libBNNS.dylib", "bnns::GraphCompile(x)", "bnns-crash"),
        ("libBNNS.dylib", "other", "crash-in-core-ml"),
        ("AppleNeuralEngine", "-[_ANEClient x]", "crash-on-neural-engine"),
        ("CoreML", "-[MLModel x]", "crash-in-core-ml"),
        ("MetalPerformanceShadersGraph", "x", "crash-on-gpu"),
    ],
)
def test_frames_name_the_framework(image: str, symbol: str, id_: str) -> None:
    body = {
        "exception": {"type": "EXC_BAD_ACCESS", "signal": "SIGSEGV"},
        "threads": [{"triggered": True, "frames": [{"imageIndex": 0, "symbol": symbol}]}],
        "usedImages": [{"name": image}],
    }
    assert [found.failure.id for found in _examine(report_bytes(body)).found] == [id_]


def test_frames_of_an_exception_are_read() -> None:
    body = {
        "exception": {"type": "EXC_CRASH", "signal": "SIGABRT"},
        "lastExceptionBacktrace": [{"imageIndex": 0, "symbol": "-[_ANEModel x]"}],
        "threads": [{"triggered": True, "frames": [{"imageIndex": 1, "symbol": "abort"}]}],
        "usedImages": [{"name": "AppleNeuralEngine"}, {"name": "libsystem_c.dylib"}],
    }
    report = _examine(report_bytes(body))
    assert report.crash is not None
    assert report.crash.frames == ("libsystem_c.dylib abort", "AppleNeuralEngine -[_ANEModel x]")
    assert [found.failure.id for found in report.found] == ["crash-on-neural-engine"]


#: As published: the process that was ended has a reason; the largest one need not have been ended.
MEMORY: dict[str, Any] = {
    "bug_type": "298",
    "product": "iPhone18,1",
    "memoryStatus": {"pageSize": 16384, "memoryPages": {"active": 195361}},
    "largestProcess": "Largest",
    "processes": [
        {"pid": 1, "name": "Largest", "rpages": 119425, "states": ["active"]},
        {"pid": 2, "name": "MyApp", "rpages": 65536, "reason": "per-process-limit"},
    ],
}


def _memory_event(**changes: Any) -> LogReport:
    head = {"bug_type": "298", "os_version": "iPhone OS 27.0 (24A5355q)"}
    body = json.dumps(MEMORY | changes, indent=2)
    return examine_log(io.BytesIO(f"{json.dumps(head)}\n{body}\n".encode()), "JetsamEvent.ips")


@pytest.mark.parametrize(
    ("reason", "id_"),
    [
        ("per-process-limit", "memory-limit"),
        ("vm-pageshortage", "memory-of-the-device"),
        ("highwater", "memory-of-the-device"),
    ],
)
def test_processes_that_were_ended_for_their_memory(reason: str, id_: str) -> None:
    report = _memory_event(processes=[MEMORY["processes"][0], MEMORY["processes"][1] | {"reason": reason}])
    crash = report.crash
    assert crash is not None
    assert (crash.process, crash.exception, crash.device) == ("MyApp", "JetsamEvent", "iPhone18,1")
    assert crash.messages == (f"ended MyApp with 1.07 GB: {reason}",)
    assert [found.failure.id for found in report.found] == [id_]


@pytest.mark.parametrize(
    "changes",
    [
        {"processes": []},
        {"processes": 3},
        {"processes": [{"reason": 5, "rpages": -1}, 3], "memoryStatus": None},
        {"processes": [{"reason": "x", "rpages": 10**30}], "memoryStatus": {"pageSize": 10**9}},
    ],
)
def test_damaged_reports_on_memory(changes: dict[str, Any]) -> None:
    report = _memory_event(**changes)
    assert report.crash is not None
    assert report.found == ()


def test_a_crash_elsewhere_is_not_blamed_on_core_ml() -> None:
    body = BODY | {
        "asi": {},
        "faultingThread": 0,
        "threads": [{"frames": [{"imageIndex": 0, "symbol": "x"}]}],
    }
    report = _examine(report_bytes(body))
    assert report.crash is not None
    assert report.found == ()


@pytest.mark.parametrize(
    "body",
    [
        {"exception": 3, "threads": {}, "usedImages": None, "faultingThread": "x", "asi": [1]},
        {"exception": {"type": 1}, "threads": [3, {"frames": [3, {"imageIndex": -1}]}], "faultingThread": 1},
        {"exception": {}, "faultingThread": 99, "threads": [{}], "termination": {"reasons": [1, "\x1b[2J"]}},
    ],
)
def test_damaged_reports(body: object) -> None:
    report = _examine(report_bytes(body))
    assert report.crash is not None
    assert "\x1b" not in report.crash.reason


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 100_000, b"3", b'{"other": 1}', b"\xff\xfe"])
def test_other_files_with_such_a_header_are_logs(body: bytes) -> None:
    report = _examine(json.dumps(HEADER).encode() + b"\n" + body + b"\nANECCompile() FAILED\n")
    assert report.crash is None
    assert [found.failure.id for found in report.found] == ["neural-engine-compiler-compile"]
