"""The first screen of the page of an answer in a browser: its figures are those of the answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from coremlscope.base.units import format_bytes, format_duration
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.reports.page import render_html
from coremlscope.results.answer import Answer, Proposal, Speed
from coremlscope.studies.answer.answer import answer_models
from tests.support.advised_models import answered_models
from tests.support.browser import Drive

_UNITS = {"neural_engine": "Neural Engine", "gpu": "GPU", "cpu": "CPU"}
_SETTINGS = {"all": "All", "cpu_and_ne": "CPU + NE", "cpu_and_gpu": "CPU + GPU", "cpu_only": "CPU only"}


def test_the_first_screen_has_the_figures_of_the_answer(
    drive: Drive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    answers, pages = [], []
    for name, model in answered_models().items():
        package = tmp_path / f"{name}.mlpackage"
        write_mlpackage(model, package)
        answer, (profile,) = answer_models(package)
        page = tmp_path / f"{name}.html"
        page.write_text(render_html(profile), encoding="utf-8")
        answers.append(answer)
        pages.append(page.as_uri())
    seen = drive("answer", *pages)
    assert seen["complaints"] == seen["foreign"] == []
    for answer, shown in zip(answers, seen["pages"], strict=True):
        # Without a reason, the page lists operations that no rule is known for.
        reasons = shown.pop("reasons")
        assert reasons == list(answer.off_engine[:3]) or not answer.off_engine
        assert shown == _expected(answer)
    assert any(answer.off_engine for answer in answers)


def _expected(answer: Answer) -> dict[str, Any]:
    first = answer.speeds[0]
    rate = _rate(first)
    low, high = (format_duration(end) for end in (first.latency.low, first.latency.high))
    trust = answer.trust
    assert trust is not None
    line = {"a": " of phones and tablets", "m": " of Macs"}.get(trust.chips, "")
    error, within = _percent(trust.error), _percent(trust.within)
    return {
        "verdict": [answer.verdict],
        "latency": [
            format_duration(first.latency.value),
            f"{low} – {high} (80 % interval); {rate}",
            f"Such estimates for the {_UNITS[trust.unit]}{line} were off by {error}"
            f" (median of {trust.count} published figures); {within} were within the interval.",
        ],
        "devices": [_device(one) for one in answer.speeds],
        "shares": [f"{_name(unit)} {_percent(part)}" for unit, part in _shares(first) if part >= 0.005],
        "kinds": [f"{name} {_percent(part)}" for name, part in answer.kinds],
        "blocks": [
            f"{one.times} equal blocks are {_percent(one.share)} of it: {_listed(one.kinds)}"
            for one in filter(None, [answer.blocks])
        ],
        "waits": [_listed(answer.waits)],
        "changes": [_change(one, answer) for one in (*answer.proposals, *filter(None, [answer.together]))],
    }


def _listed(shares: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{name} {_percent(part)}" for name, part in shares if part >= 0.01)


def _rate(speed: Speed) -> str:
    """The predictions a second of a shown duration, both with three digits."""
    rate = float(f"{1 / float(f'{speed.latency.value:.3g}'):.3g}")
    return f"about {rate:.0f} predictions a second"


def _percent(part: float) -> str:
    return f"{part * 100:.0f} %"


def _name(unit: str) -> str:
    """Its name on wide screens and on phones, of which the page shows one."""
    return _UNITS[unit] + {"neural_engine": "NE"}.get(unit, _UNITS[unit])


def _shares(speed: Speed) -> list[tuple[str, float]]:
    shares: list[tuple[str, float]] = [(unit, speed.placement.get(unit, 0.0)) for unit in _UNITS]  # type: ignore[call-overload]
    return [(unit, part) for unit, part in shares if part > 0]


def _device(speed: Speed) -> dict[str, str]:
    latency, best = speed.latency, speed.best
    mark = "?" if best.certainty == "unclear" else ""
    parts = ", ".join(
        f"{_UNITS[unit]} {part * 100:.1f} % ({format_duration(part * latency.value)})"
        for unit, part in _shares(speed)
    )
    faster = f"{_SETTINGS[best.compute_units]} {format_duration(best.latency.value)}{mark}"
    return {
        "device": f"{speed.device}, {speed.os}",
        "interval": f"{format_duration(latency.low)} – {format_duration(latency.high)}",
        "value": format_duration(latency.value),
        "units": parts,
        "best": "" if best.certainty == "no gain" else faster,
    }


def _change(one: Proposal, answer: Answer) -> list[str]:
    saving = f"{format_bytes(one.saved_bytes)} less"
    if one.after is not None:
        saving = f"{format_duration(one.before_s)} → {format_duration(one.after.value)}"
    lines = (one.code, one.command.replace("MODEL", answer.models[0]))
    return [
        one.text,
        saving,
        one.certainty if one.is_checked else f"{one.certainty}, not checked",
        *filter(None, lines),
    ]
