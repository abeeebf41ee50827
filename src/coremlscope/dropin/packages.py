"""Packages as coremltools opens them, with an error that names absent files.

coremltools opens packages with a native class, whose error for an absent weight folder is `Item does not
exist for identifier: …`.
"""

from __future__ import annotations

import functools
import os
from typing import Any

from coremlscope.formats.mlpackage import missing_items


def is_checked(package: object) -> bool:
    """True for a class that `checked` returned."""
    return isinstance(package, type) and "_coremlscope_checks" in vars(package)


def unchecked(package: type) -> type:
    """Returns the class from which `checked` derived another."""
    return package.__bases__[0]


@functools.cache
def checked(package: type) -> type:
    """Derives a class from coremltools' `ModelPackage` that names absent files.

    Args:
        package: The native class.
    """

    def __init__(self: Any, path: str | os.PathLike[str], *rest: Any) -> None:  # noqa: N807
        try:
            super(type(self), self).__init__(path, *rest)
        except RuntimeError as error:
            missing = missing_items(path)
            if not missing:
                raise
            verb = "is" if len(missing) == 1 else "are"
            raise RuntimeError(
                f"{', '.join(missing)} {verb} missing in the package {path}, so coremltools cannot open it: "
                "copy or download the whole package again "
                "(`coremlscope inspect` describes it without weights)"
            ) from error

    return type(package.__name__, (package,), {"__init__": __init__, "_coremlscope_checks": True})
