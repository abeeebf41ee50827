"""What is known of Core ML's failures: texts that a process leaves behind, and how it ended.

The texts were collected from public reports: apple/coremltools #2325, #2503, #2507, #2549, #2757, #2758,
pytorch/executorch #11541, microsoft/onnxruntime #22275, soniqo/speech-swift #313.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["FAILURES", "Failure", "explain", "find_failure"]

_OTHER_UNITS = "try another setting with --compute-units"
_LONGEST = 300


@dataclass(frozen=True, slots=True)
class Failure:
    """A known failure.

    Attributes:
        pattern: A regular expression that the process's messages match.
        text: What happened, as the end of a sentence; empty to cite the matching line.
        hint: What to do.
    """

    pattern: str
    text: str
    hint: str


FAILURES: tuple[Failure, ...] = (
    Failure(
        r"No module named 'coremltools\.libcoremlpython'|Failed to load _MLModelProxy",
        "this coremltools has no native module, so it cannot reach Core ML",
        "install coremltools from a wheel, with a Python version for which it has one: 3.10 to 3.13",
    ),
    Failure(
        r"No module named 'coremltools'",
        "coremltools is not installed",
        "pip install 'coremlscope[coreml]'",
    ),
    Failure(
        r"Failed to create a working directory|No space left on device",
        "the disk is full; Core ML's caches may hold much of it",
        "free disk space; restarting the Mac lets the system empty its caches",
    ),
    Failure(
        r"not a valid \.mlmodelc file",
        "Core ML was given a folder that is not a compiled model",
        "use the .mlpackage or .mlmodel from which it was compiled",
    ),
    Failure(
        r"Unknown opset|Unable to parse ML Program",
        "",
        "the model needs a newer system than this Mac has: update macOS, or convert it with an older"
        " minimum_deployment_target",
    ),
    Failure(
        r"Cannot provide zero compute device types",
        "this Mac has none of the allowed compute units",
        _OTHER_UNITS,
    ),
    Failure(
        r"manifest\.plist.*couldn.t be opened|resources\.bin missing",
        "an entry of Core ML's cache is incomplete, as after a full disk",
        "delete the folder com.apple.e5rt.e5bundlecache in ~/Library/Caches/python, and run it again",
    ),
    Failure(
        r"MTLReportFailure|MLIR pass manager failed|MPSGraph.*(assert|failed)|failed assertion",
        "",
        "the GPU's compiler failed on this model: try --compute-units cpu_and_ne or cpu_only",
    ),
    Failure(
        r"ANECCompile\(\) FAILED|ANE model load has failed|ANEF",
        "",
        "the Neural Engine's compiler failed on this model: try --compute-units cpu_and_gpu or cpu_only",
    ),
    Failure(
        r"Data-dependent shapes were disabled",
        "",
        "a shape depends on a value: try --compute-units cpu_and_gpu or cpu_only",
    ),
    Failure(r"model execution plan .*error code: -?\d+", "", _OTHER_UNITS),
)


def find_failure(failures: Sequence[Failure], lines: Sequence[str]) -> tuple[str, str]:
    """Returns what is known of the first failure that a line matches, and a hint; empty texts for none.

    Args:
        failures: Known failures, more specific ones first.
        lines: What a process said.
    """
    for failure in failures:
        matching = [line for line in lines if re.search(failure.pattern, line)]
        if matching:
            return failure.text or _short(matching[-1]), failure.hint
    return "", ""


def explain(code: int, said: str) -> tuple[str, str]:
    """One sentence about the end of a process, and a hint where one is known.

    Args:
        code: The exit status as `subprocess` gives it: negative for a signal.
        said: The end of what the process wrote to its standard error.
    """
    lines = [" ".join(line.split()) for line in said.strip().splitlines() if line.strip()]
    end = _ending(code)
    text, hint = find_failure(FAILURES, lines)
    if text:
        return (f"{end}: {text}" if end else text), hint
    last = _short(lines[-1]) if lines else ""
    if not end:
        return last or f"exit code {code}", ""
    return (f"{end}; its last words: {last}" if last else end), ""


def _ending(code: int) -> str:
    """What a signal means; empty where the process ended by itself."""
    number = -code if code < 0 else code - 128 if code > 128 else 0
    try:
        name = signal.Signals(number).name
    except ValueError:
        return ""
    meaning = {
        "SIGABRT": "Core ML aborted the process (SIGABRT)",
        "SIGKILL": "the system killed the process (SIGKILL), as it does when memory runs out",
        "SIGSEGV": "Core ML crashed (SIGSEGV)",
        "SIGBUS": "Core ML crashed (SIGBUS)",
    }
    return meaning.get(name, f"the process was ended by {name}")


def _short(line: str) -> str:
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
