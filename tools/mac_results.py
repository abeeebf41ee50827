"""Joins what one run on a Mac found into one results file, which `coremlscope import` reads.

python tools/mac_results.py PROFILE DOCTOR OUT

The profile is that of `profile --compute-units every`, with Core ML's plans and ours; the checks of `doctor`
become its findings. It has no paths and no names but those of the sample.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def join(profile: Path, doctor: Path, out: Path) -> None:
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
    out.write_text(json.dumps(whole, ensure_ascii=False, indent=1), encoding="utf-8")


if __name__ == "__main__":
    join(*map(Path, sys.argv[1:]))
