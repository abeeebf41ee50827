from __future__ import annotations

import io
import json
from typing import Any

import pytest

from coremlscope.doctor.log import LogReport, examine_log

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
    assert [found.failure.id for found in report.found] == ["mpsgraph-abort", "crash-on-gpu"]
    assert report.found[0].lines == 2


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
    assert [found.failure.id for found in report.found] == ["ane-compile-failed"]
