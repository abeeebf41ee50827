"""Recordings in notebooks: lines of cells."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from msgspec.structs import replace

from coremlscope.dropin.tracing.threads import is_kernel
from coremlscope.results.trace import Site, Trace


def describe_cells(trace: Trace) -> Trace:
    """Names lines by their cells, `In[3]`, instead of the files that the kernel compiles them from."""
    if not is_kernel():
        return trace
    shell = import_module("IPython").get_ipython()
    if shell is None:
        return trace
    sites = tuple(Site(_cell(shell, site.file), site.line, site.function) for site in trace.sites)
    return replace(trace, sites=sites, command=("notebook",))


def _cell(shell: Any, file: str) -> str:
    """The name of the cell that a file belongs to, from the interface for tracebacks; else the file."""
    find = getattr(shell.compile, "format_code_name", None)
    named = None if find is None else find(file)
    return str(named[1]) if named else file
