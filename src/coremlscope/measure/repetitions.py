"""How often phases are repeated where their number is left open, and remarks on fewer repetitions.

Compilations, and then loads, have 2 s: one more begins only if it fits. Predictions end once their median is
known within 1 % (`engines.sampling.is_settled`), or after 30 s. A number that is given is kept exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec.structs

from coremlscope.base.findings import Finding
from coremlscope.measure.effort import Effort
from coremlscope.results.measurement import Phase, Settings
from coremlscope.runtime.engines.sampling import LONGEST_S, PHASE_BUDGET_S, is_settled

__all__ = [
    "PHASE_BUDGET_S",
    "choose_repetitions",
    "ends_predictions",
    "phase_budget_s",
    "repetition_findings",
]

#: The most repetitions of each phase where their number is left open.
_MOST = {"compile": 6, "load": 6, "predict": 50}
_VERBS = {"compile": "compiled", "load": "loaded", "predict": "predicted"}


def choose_repetitions(settings: Settings, iterations: int | None, effort: Effort) -> Settings:
    """Returns settings with numbers of repetitions; None leaves a number open.

    Args:
        settings: The other settings.
        iterations: Timed predictions.
        effort: The other numbers.
    """
    given = {
        "compile": effort.compile_iterations,
        "load": effort.load_iterations,
        "predict": iterations,
    }
    counts = {phase: _MOST[phase] if number is None else number for phase, number in given.items()}
    return msgspec.structs.replace(
        settings,
        warmups=effort.warmups,
        iterations=counts["predict"],
        compile_iterations=counts["compile"],
        load_iterations=counts["load"],
        early=tuple(phase for phase, number in given.items() if number is None),
    )


def phase_budget_s(settings: Settings, phase: str) -> float:
    """Returns the seconds that a phase has: `compile` or `load`."""
    return PHASE_BUDGET_S if phase in settings.early else float("inf")


def ends_predictions(settings: Settings) -> Callable[[Sequence[float]], bool]:
    """Returns what decides whether predictions end early."""
    return is_settled if "predict" in settings.early else lambda _: False


def repetition_findings(settings: Settings, phases: Mapping[str, Phase]) -> tuple[Finding, ...]:
    """Returns a remark on phases that ended before their most repetitions.

    Args:
        settings: The settings.
        phases: The measured phases, by name.
    """
    most = {
        "compile": settings.compile_iterations,
        "load": settings.load_iterations,
        "predict": settings.iterations,
    }
    fewer = {
        name: len(phase.samples_s)
        for name, phase in phases.items()
        if name in settings.early and len(phase.samples_s) < most[name]
    }
    if not fewer:
        return ()
    parts = [
        f"{_VERBS[name]} {_times(number)} instead of {most[name]} times" for name, number in fewer.items()
    ]
    why = []
    if {"compile", "load"} & fewer.keys():
        why.append(f"compilations and loads have {PHASE_BUDGET_S:.0f} s each")
    if "predict" in fewer:
        is_slow = sum(phases["predict"].samples_s) >= LONGEST_S
        why.append(f"predictions have {LONGEST_S:.0f} s" if is_slow else "the median is known within 1 %")
    text = f"{', '.join(parts)}: {', and '.join(why)}."
    options = {"compile": "--compile-iterations", "load": "--load-iterations", "predict": "--iterations"}
    hint = f"{' and '.join(options[name] for name in fewer)} N repeats exactly N times"
    return (Finding(id="fewer-repetitions", severity="info", text=text[0].upper() + text[1:], hint=hint),)


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
