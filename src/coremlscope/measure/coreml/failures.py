"""Known failures of Core ML, and compilations that fail silently, by the texts that a process leaves behind.

The texts were collected from public reports: apple/coremltools #2325, #2503, #2507, #2549, #2757, #2758,
pytorch/executorch #11541, microsoft/onnxruntime #22275, soniqo/speech-swift #313.
"""

from __future__ import annotations

from collections.abc import Sequence

from coremlscope.base.errors import how_to_install
from coremlscope.base.findings import Finding
from coremlscope.base.processes.endings import Failures, KnownFailure, find_failure, lines_of
from coremlscope.measure.coreml.units import OTHER_UNITS

_KNOWN = (
    KnownFailure(
        r"No module named 'coremltools\.libcoremlpython'|Failed to load _MLModelProxy",
        "this coremltools has no native module, so it cannot reach Core ML",
        "install coremltools from a wheel, with a Python version for which it has one",
    ),
    KnownFailure(
        r"No module named 'coremltools'",
        "coremltools is not installed",
        how_to_install("coreml"),
    ),
    KnownFailure(
        r"Failed to create a working directory|No space left on device",
        "the disk is full; Core ML's caches may hold much of it",
        "free disk space; restarting the Mac lets the system empty its caches",
    ),
    KnownFailure(
        r"not a valid \.mlmodelc file",
        "Core ML was given a folder that is not a compiled model",
        "use the .mlpackage or .mlmodel from which it was compiled",
    ),
    KnownFailure(
        r"Unknown opset|Unable to parse ML Program",
        "",
        "the model needs a newer system than this Mac has: update macOS, or convert it with an older"
        " minimum_deployment_target",
    ),
    KnownFailure(
        r"Cannot provide zero compute device types",
        "this Mac has none of the allowed compute units",
        OTHER_UNITS,
    ),
    KnownFailure(
        r"manifest\.plist.*couldn.t be opened|resources\.bin missing",
        "an entry of Core ML's cache is incomplete, as after a full disk",
        "delete the folder com.apple.e5rt.e5bundlecache in ~/Library/Caches/python, and run it again",
    ),
    KnownFailure(
        r"MTLReportFailure|MLIR pass manager failed|MPSGraph.*(assert|failed)|failed assertion",
        "",
        "the GPU's compiler failed on this model: try --compute-units cpu_and_ne or cpu_only",
    ),
    KnownFailure(
        r"ANECCompile\(\) FAILED|ANE model load has failed|ANEF",
        "",
        "the Neural Engine's compiler failed on this model: try --compute-units cpu_and_gpu or cpu_only",
    ),
    KnownFailure(
        r"Data-dependent shapes were disabled",
        "",
        "a shape depends on a value: try --compute-units cpu_and_gpu or cpu_only",
    ),
    KnownFailure(r"model execution plan .*error code: -?\d+", "", OTHER_UNITS),
)

#: Known failures of Core ML.
FAILURES = Failures("Core ML", _KNOWN)

#: What Core ML writes where it could not compile for a unit, and goes on with others.
_FALLBACKS = tuple(
    KnownFailure(pattern, "", "compare the settings with --compute-units every, and see Core ML's plan")
    for pattern in (
        r"ANECCompile\(\) FAILED|MILCompilerForANE error|ANE model load has failed|ANEF\b",
        r"MLIR pass manager failed",
        r"E5RT encountered an STL exception",
        r"\[Espresso::handle_ex_plan\]|Error plan build: -?\d+",
        r"model execution plan .*error code: -?\d+",
    )
)


def fallback_findings(said: str, units: str) -> tuple[Finding, ...]:
    """Returns a warning where Core ML could not compile for a unit, loaded the model, and ran it elsewhere.

    Args:
        said: What a process that loaded the model wrote to its standard error.
        units: The setting of compute units.
    """
    line, hint = find_failure(_FALLBACKS, lines_of(said))
    if not line:
        return ()
    text = (
        f"Core ML could not compile the model for a unit of {units} and went on without it, so that these"
        f" times are of other units, at least in part; it wrote: {line}"
    )
    return (Finding(id="compilation-fell-back", severity="warning", text=text, hint=hint),)


def not_finite_findings(outputs: Sequence[str], units: str) -> tuple[Finding, ...]:
    """Returns a warning where outputs of a prediction have elements that are infinite or not a number.

    Args:
        outputs: The names of these outputs.
        units: The setting of compute units.
    """
    if not outputs:
        return ()
    text = f"Under {units} Core ML returned infinite or NaN elements: {', '.join(outputs)}."
    hint = "compare settings with `coremlscope verify --compute-units every`"
    return (Finding(id="not-finite", severity="warning", text=text, hint=hint),)
