"""Profiles one model in a separate process, and reports progress on standard output as lines of JSON.

After each repetition it prints `{"phase": "predict", "done": 3, "total": 50}`, and if it fails
`{"error": "…", "hint": "…"}`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coremlscope import api
from coremlscope.errors import CoremlscopeError
from coremlscope.results.profile import write_profiles

__all__ = ["main"]


def main(arguments: list[str]) -> int:
    """Profiles a model.

    Args:
        arguments: The model, the file to write, and the request as JSON: `iterations`, `devices`,
            `compute_units`, `random_weights`.

    Returns:
        The exit code.
    """
    model, target, request = Path(arguments[0]), Path(arguments[1]), json.loads(arguments[2])
    try:
        profile = api.profile(
            model,
            iterations=int(request.get("iterations", 50)),
            devices=tuple(request.get("devices", ())),
            compute_units=request.get("compute_units", "all"),
            random_weights=bool(request.get("random_weights", False)),
            engine="onnxruntime",
            progress=_report_progress,
        )
        write_profiles(target, [profile])
    except CoremlscopeError as error:
        _report({"error": error.message, "hint": error.hint})
        return error.exit_code
    except (MemoryError, OSError) as error:
        _report({"error": f"{type(error).__name__}: {error}", "hint": "free some memory or disk space"})
        return 1
    return 0


def _report_progress(phase: str, done: int, total: int) -> None:
    _report({"phase": phase, "done": done, "total": total})


def _report(message: Mapping[str, Any]) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
