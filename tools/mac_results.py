"""Joins what one run on a Mac found into one results file, which `coremlscope import` reads.

python tools/mac_results.py PROFILE DOCTOR STEPS OUT

The profile is that of `profile --compute-units every`, with Core ML's plans and ours; the checks of `doctor`
and the steps of `tools/mac_verbs.sh` become its findings, which say what the run confirms of all that is
marked as not yet confirmed. It has no names but those of the sample: folders of the steps, paths of the user
and the name of the machine are taken out.
"""

from __future__ import annotations

import json
import platform
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

#: What is marked as not yet confirmed, and the commands of `tools/mac_verbs.sh` that settle it.
MARKS: Mapping[str, str] = {
    "times of Core ML under each setting": r"profile \S+ .*--compute-units every",
    "models with states": r"(profile|verify) states\.mlpackage",
    "functions by name": r"(profile|verify|plan) functions\.mlpackage",
    "compiled models": r"profile \S+\.mlmodelc",
    "output backings and asynchronous predictions": r".*--other-predictions",
    "Core ML's own plan": r"plan ",
    "the first answer on a Mac": r"\S+\.mlpackage --json",
    "outputs of Core ML next to a reference": r"verify ",
    "parts run by Core ML": r"isolate ",
    "predictions by Core ML": r"predict .*--engine coreml",
}


def join(profile: Path, doctor: Path, steps: Path, out: Path) -> None:
    """Writes the results file."""
    whole = json.loads(profile.read_text(encoding="utf-8"))
    for check in json.loads(doctor.read_text(encoding="utf-8"))["checks"]:
        whole["findings"].append(
            {
                "id": "doctor",
                "severity": "warning" if check["status"] == "broken" else "info",
                "text": f"{check['name']}: {check['status']}: {check['text']}",
                "hint": check["fix"],
            }
        )
    lines = steps.read_text(encoding="utf-8").splitlines() if steps.is_file() else []
    whole["findings"] += _confirmations(list(filter(None, map(_step, lines))))
    text = json.dumps(whole, ensure_ascii=False, indent=1)
    for private, shown in ((str(Path.home()), "~"), (platform.node(), "this-mac")):
        text = text.replace(private, shown) if len(private) > 1 else text
    out.write_text(text, encoding="utf-8")


def _step(line: str) -> tuple[bool, str] | None:
    """Returns whether a command ended as expected, and the command without folders; None for other tools."""
    status, _, rest = line.partition(" (expected ")
    expected, _, command = rest.partition("): ")
    name, _, arguments = re.sub(r"[^\s=]*/", "", command).partition(" ")
    return (status == expected, arguments) if name == "coremlscope" else None


def _confirmations(steps: Sequence[tuple[bool, str]]) -> Iterator[dict[str, str]]:
    """Yields for each mark whether the commands that settle it ended as expected."""
    for mark, pattern in MARKS.items():
        ended = [(is_met, arguments) for is_met, arguments in steps if re.match(pattern, arguments)]
        failed = [f"`coremlscope {arguments}`" for is_met, arguments in ended if not is_met]
        count = f"{len(ended)} command{'s' if len(ended) > 1 else ''}"
        is_settled = bool(ended) and not failed
        if is_settled:
            text = f"Confirmed on this machine: {mark}; {count} ended as expected."
        else:
            why = f"not as expected ended {', '.join(failed)}" if failed else "no command was run"
            text = f"Not yet confirmed: {mark}; {why}."
        yield {
            "id": "confirmed" if is_settled else "not-confirmed",
            "severity": "info" if is_settled else "warning",
            "text": text,
            "hint": "",
        }


if __name__ == "__main__":
    join(*map(Path, sys.argv[1:]))
