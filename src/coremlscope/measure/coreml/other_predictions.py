"""Times what coremltools lacks through pyobjc, in processes of their own: output backings, async predictions.

Not yet confirmed on a device.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec.structs

from coremlscope.base.errors import EngineError, how_to_install
from coremlscope.base.findings import Finding
from coremlscope.base.processes.child import ChildLimits, python_child
from coremlscope.measure.contract import Progress
from coremlscope.measure.coreml.service import core_ml_process
from coremlscope.measure.partial import ends_work, interrupted
from coremlscope.model.ir import ArrayFeature, FunctionDescription
from coremlscope.results.measurement import Phase

PREDICTIONS_CHILD = python_child("coremlscope.measure.coreml.predictions_child", "time_other")

_KINDS: Mapping[str, str] = {"backings": "output backings", "async": "asynchronous predictions"}
_HINT = "profile without --other-predictions"
#: Shorter than the limit of a first load, since the model was loaded before.
_PATIENCE_S = 300.0
#: Timed phases by name, and findings.
OtherPhases: TypeAlias = tuple[dict[str, Phase], list[Finding]]


def time_others(
    request: Path,
    interface: FunctionDescription,
    *,
    iterations: int,
    limits: ChildLimits,
    units: str,
    progress: Progress | None = None,
    command: Sequence[str] = PREDICTIONS_CHILD,
    patience_s: float = _PATIENCE_S,
) -> OtherPhases:
    """Times output backings, then asynchronous predictions, each in a process; a failure costs it alone.

    Args:
        request: The request of `timing_child`; the compiled model and the values are beside it.
        interface: The function that is timed.
        iterations: Predictions of each phase.
        limits: When to give up, besides `patience_s`.
        units: The setting that Core ML is given.
        progress: Called after each prediction.
        command: The child process to run; tests give another one.
        patience_s: Seconds to wait for the load, and for each prediction.

    Returns:
        Timed phases by name, and findings.
    """
    phases: dict[str, Phase] = {}
    findings: list[Finding] = []
    reason = _unsuited(interface)
    if reason:
        return phases, [_not_timed("Other ways to predict were", reason, "", "info")]
    patient = msgspec.structs.replace(limits, silence_s=min(limits.silence_s, patience_s))
    for kind, name in _KINDS.items():
        messages: list[Mapping[str, Any]] = []
        try:
            with core_ml_process(
                [*command, str(request), kind], units, request.parent, patient, doing=name, hint=_HINT
            ) as reported:
                for message in reported:
                    messages.append(message)
                    if progress is not None and message.get("progress") == kind:
                        done = sum("progress" in m for m in messages) - 1
                        progress(name, done, max(done, iterations))
        except EngineError as error:
            findings.append(_failed(name, error))
        except KeyboardInterrupt:
            findings.append(interrupted(f"Timing {name}"))
        if any(message.get("absent") for message in messages):
            reason, hint = "pyobjc is not installed", how_to_install("mac")
            findings.append(_not_timed("Other ways to predict were", reason, hint, "warning"))
            break
        timed = [message for message in messages if "phase" in message]
        phases |= {one["phase"]: Phase.of(one["seconds"], one["warmups"]) for one in timed}
        findings += (*_on_backings(timed), *_on_rates(timed))
        if any(map(ends_work, findings)):
            break
    return phases, findings


def _unsuited(interface: FunctionDescription) -> str:
    """Why a model cannot be timed in other ways; empty if it can."""
    others = [f.name for f in interface.inputs if not isinstance(f.type, ArrayFeature)]
    if others:
        return f"the input {others[0]!r} is not a multi-array"
    return "the model has states, which allow one prediction at a time" if interface.states else ""


def _on_rates(messages: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    rates = [
        f"{len(message['seconds']) / message['wall_s']:,.1f} with {message['in_flight']} in flight"
        for message in messages
        if message.get("wall_s")
    ]
    if rates:
        text = (
            f"Asynchronous predictions per second, measured by Core ML through pyobjc: {', '.join(rates)};"
            " their samples last from the call to the completion handler."
        )
        yield Finding(id="asynchronous-predictions", severity="info", text=text)


def _on_backings(messages: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    for message in messages:
        if "used" not in message:
            continue
        used, ignored = message["used"], message["ignored"]
        outputs = len(used) + len(ignored)
        left_out = f"; it ignored those of {', '.join(ignored)}" if ignored else ""
        yield Finding(
            id="output-backings",
            severity="info",
            text=f"Core ML, called through pyobjc, used {len(used)} of {outputs} output backings{left_out}.",
        )


def _not_timed(what: str, reason: str, hint: str, severity: Any) -> Finding:
    text = f"{what} not timed: {reason}."
    return Finding(id="other-predictions-not-timed", severity=severity, text=text, hint=hint)


def _failed(name: str, error: EngineError) -> Finding:
    return Finding(
        id="other-predictions-not-timed",
        severity="error",
        text=f"{name[0].upper()}{name[1:]} were not timed to the end: {error.message}.",
        hint=error.hint,
        exit_code=error.exit_code,
    )
