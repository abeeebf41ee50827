"""Readers and writers: every container in which Core ML models are kept, to and from `ir.Model`.

Importing this package is cheap; protobuf is loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coremlscope.formats.container import read, sniff
    from coremlscope.formats.miltext import print_program
    from coremlscope.formats.packaging import write_mlpackage
    from coremlscope.formats.sample import sample_model, write_sample

__all__ = ["print_program", "read", "sample_model", "sniff", "write_mlpackage", "write_sample"]

_MODULES = {
    "print_program": "miltext",
    "read": "container",
    "sample_model": "sample",
    "sniff": "container",
    "write_mlpackage": "packaging",
    "write_sample": "sample",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
