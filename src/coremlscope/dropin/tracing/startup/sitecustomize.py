"""Starts recording in an interpreter whose parent is recorded; Python imports this module at its start.

It stands before another `sitecustomize` on the path, which it runs first.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

_HERE = Path(__file__).resolve()
for _folder in sys.path:
    _other = Path(_folder).resolve() / _HERE.name
    if _other != _HERE and _other.is_file():
        runpy.run_path(str(_other), run_name="sitecustomize")
        break

if os.environ.get("COREMLSCOPE_TRACE"):
    try:
        from coremlscope.dropin.tracing.child import begin_as_child
    except ImportError:
        sys.stderr.write(
            "coremlscope trace: this interpreter does not have coremlscope, so it is not recorded\n"
        )
    else:
        begin_as_child()
