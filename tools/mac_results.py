"""Joins what one run on a Mac found into one results file, which `coremlscope import` reads.

python tools/mac_results.py PROFILE DOCTOR STEPS OUT

The profile is that of `profile --compute-units every`, with Core ML's plans and ours; the checks of `doctor`
and the steps of `tools/mac_verbs.sh` become its findings, which say what the run confirms of all that is
marked as not confirmed. It has no names but those of the sample: paths of the user and the name of the
machine are taken out.
"""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path


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
    whole["findings"] += filter(None, map(_confirmation, lines))
    text = json.dumps(whole, ensure_ascii=False, indent=1)
    for private, shown in ((str(Path.home()), "~"), (platform.node(), "this-mac")):
        text = text.replace(private, shown) if len(private) > 1 else text
    out.write_text(text, encoding="utf-8")


def _confirmation(line: str) -> dict[str, str] | None:
    """Returns what a step confirms, `0 (expected 0): …/coremlscope profile …`; None for other tools."""
    status, _, rest = line.partition(" (expected ")
    expected, _, command = rest.partition("): ")
    name, _, arguments = command.partition(" ")
    if not name.endswith("coremlscope"):
        return None
    is_met = status == expected
    said = f"ended with {status}, as expected" if is_met else f"ended with {status} instead of {expected}"
    return {
        "id": "confirmed" if is_met else "not-confirmed",
        "severity": "info" if is_met else "warning",
        "text": f"On this machine `coremlscope {arguments}` {said}.",
        "hint": "",
    }


if __name__ == "__main__":
    join(*map(Path, sys.argv[1:]))
