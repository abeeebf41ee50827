"""Profiles one model in a process of its own, and tells its progress on standard output, a line each.

`{"phase": "predict", "done": 3, "total": 50}` while it works, then nothing, or `{"error": "…", "hint": "…"}`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from coremlscope import api
from coremlscope.errors import CoremlscopeError
from coremlscope.render import render_json

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
        profile = api.profile(model, progress=_tell_progress, **_options(request))
        target.write_text(render_json(profile), encoding="utf-8")
    except CoremlscopeError as error:
        _tell({"error": error.message, "hint": error.hint})
        return error.exit_code
    except (MemoryError, OSError) as error:
        _tell({"error": f"{type(error).__name__}: {error}", "hint": "free some memory or disk space"})
        return 1
    return 0


def _options(request: dict[str, Any]) -> dict[str, Any]:
    return {
        "iterations": int(request.get("iterations", 50)),
        "devices": tuple(request.get("devices", ())),
        "compute_units": str(request.get("compute_units", "all")),
        "random_weights": bool(request.get("random_weights", False)),
    }


def _tell_progress(phase: str, done: int, total: int) -> None:
    _tell({"phase": phase, "done": done, "total": total})


def _tell(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
