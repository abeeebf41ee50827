"""The first screen of the page of an answer in a browser: its figures are those of the answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coremlscope import api
from coremlscope.base.units import format_bytes, format_duration
from coremlscope.devices.catalog import DEFAULT_DEVICES
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.reports.page import render_html
from coremlscope.results.answer import Answer, Proposal
from coremlscope.results.profile import Profile
from tests.support.advised_models import ANSWERED_MODELS
from tests.support.browser import Drive

_UNITS = {"neural_engine": "Neural Engine", "gpu": "GPU", "cpu": "CPU"}
_SETTINGS = {"all": "All", "cpu_and_ne": "CPU + NE", "cpu_and_gpu": "CPU + GPU", "cpu_only": "CPU only"}


def test_the_first_screen_has_the_figures_of_the_answer(
    drive: Drive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    profiles, pages = [], []
    for name, build in ANSWERED_MODELS.items():
        package = tmp_path / f"{name}.mlpackage"
        write_mlpackage(build(), package)
        # The page of a plan or an estimate shows what that of the bare form does.
        for make in (api.answer, api.estimate, api.plan):
            profile = make(package, DEFAULT_DEVICES)
            page = tmp_path / f"{name}-{make.__name__}.html"
            page.write_text(render_html(profile), encoding="utf-8")
            profiles.append(profile)
            pages.append(page.as_uri())
    seen = drive("answer", *pages)
    assert seen["complaints"] == seen["foreign"] == []
    for profile, shown in zip(profiles, seen["pages"], strict=True):
        first, reasons = profile.answers[0], shown.pop("reasons")
        assert reasons == [reason.text for reason in first.why[:2]]
        assert shown == _expected(profile, tmp_path)


def _expected(profile: Profile, folder: Path) -> dict[str, Any]:
    first = profile.answers[0]
    assert first.latency is not None
    low, high = (format_duration(end) for end in (first.latency.low, first.latency.high))
    tone = "doubt" if first.trust.certainty != "likely" else "kept"
    swift = [f"Copy Swift: {one.code}" for one in first.changes if one.id in ("setting", "avoid")]
    doubts = (f"{one}." for one in first.trust.doubts[1:])
    trust = [first.trust.accuracy, *doubts, *profile.estimates[0].notes]
    return {
        "verdict": [first.headline],
        "tone": ["strip-wrong" if first.is_hazardous else f"strip-{tone}", *swift],
        "latency": [format_duration(first.latency.value), f"{low} – {high} estimated"],
        "devices": [_device(one) for one in profile.answers if one.compute_units == "all"],
        "parts": [[one.part, _percent(one.share)] for one in first.time],
        "settings": [
            [_SETTINGS[one.compute_units], format_duration(one.latency.value)]
            for one in profile.answers
            if one.device == first.device and one.latency is not None
        ],
        "changes": [_change(one, folder) for one in first.changes],
        "trust": list(filter(None, trust)),
    }


def _percent(part: float) -> str:
    return f"{part * 100:.0f} %"


def _shares(answer: Answer) -> list[tuple[str, float]]:
    shares: list[tuple[str, float]] = [(unit, answer.units.get(unit, 0.0)) for unit in _UNITS]  # type: ignore[call-overload]
    return [(unit, part) for unit, part in shares if part > 0]


def _device(answer: Answer) -> dict[str, str]:
    latency, best = answer.latency, answer.best
    assert latency is not None
    assert best is not None
    parts = ", ".join(
        f"{_UNITS[unit]} {part * 100:.1f} % ({format_duration(part * latency.value)})"
        for unit, part in _shares(answer)
    )
    doubt = "" if best.certainty == "likely" else " ?"
    faster = f"★ {format_duration(best.latency.value)} {_SETTINGS[best.compute_units]}{doubt}"
    return {
        "device": f"{answer.device}, {answer.os}",
        "interval": f"{format_duration(latency.low)} – {format_duration(latency.high)}",
        "value": format_duration(latency.value),
        "units": parts,
        "best": "=" if best.compute_units == answer.compute_units else faster,
    }


def _change(one: Proposal, folder: Path) -> list[str]:
    saving, marks = "", []
    if one.after is not None and one.before_s is not None:
        saving = f"{format_duration(one.before_s)} → {format_duration(one.after.value)}"
    elif one.saved_bytes:
        saving = f"{format_bytes(one.saved_bytes)} less"
    if one.after is not None:
        marks = [one.certainty, *([] if one.is_planned_again else ["not planned again"])]
    marks += ["overlaps those above"] if one.overlaps else []
    command = one.command.replace(f"{folder}/", "")
    lines = {"code": one.code, "command": command}
    copies = [f"Copy {what}: {line}" for what, line in lines.items() if line]
    return [one.text, saving, ", ".join(marks), *copies]
