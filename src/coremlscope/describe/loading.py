"""Which systems load a model: by its specification version, opsets and operations."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from coremlscope.base.units import shown
from coremlscope.describe.stages import list_blobs
from coremlscope.devices.release import OSRelease
from coremlscope.formats.platforms import first_release, oldest_version, opset_of
from coremlscope.model.ir import Content, Model
from coremlscope.runtime.execution.binding import share

#: Types of operations up to which each is listed.
_LISTED = 3


class LoadProblem(msgspec.Struct, frozen=True):
    """Why a system does not load a model.

    Attributes:
        text: The reason: `specification version 8 needs iOS 17`.
        needed: The first version of the system that loads the model; None if none is known.
    """

    text: str
    needed: OSRelease | None


def find_load_problem(model: Model, system: OSRelease) -> LoadProblem | None:
    """Returns why a system does not load a model; None if nothing keeps it from loading.

    The systems that read each version of the specification are from `coremlscope.formats.platforms`.
    """
    version, what = max(
        share(model, (_requirements,), lambda: list(_requirements(model))), key=lambda one: one[0]
    )
    first = first_release(version, system.platform)
    if first is None:
        return LoadProblem(f"{what} a newer {system.platform} than is known here", None)
    if (system.major, system.minor) >= first:
        return None
    needed = OSRelease(system.platform, *first)
    return LoadProblem(f"{what} {needed}", needed)


def _requirements(model: Model, stage: str = "") -> Iterator[tuple[int, str]]:
    """Yields specification versions that a model needs, and what needs them, the most general first."""
    where = f" of {stage}" if stage else ""
    if model.content.is_core_ai:
        yield model.spec_version, "Core AI needs"
        return
    # Files without a version are read as those of the first one.
    version = max(model.spec_version, 1)
    yield version, f"specification version {version}{where} needs"
    for number, (name, inner) in enumerate(zip(model.content.names, model.content.models, strict=True)):
        yield from _requirements(inner, f"the stage {shown(name)}" if name else f"stage {number}")
    if model.content.is_typed:
        yield from _opset_requirements(model.content, where)


def _opset_requirements(program: Content, where: str) -> Iterator[tuple[int, str]]:
    """Yields the versions of the functions' opsets, and of operations that these do not contain."""
    newer: dict[int, set[str]] = {}
    for function in program.functions.values():
        yield oldest_version(function.opset), f"the opset {function.opset}{where} needs"
        for type_ in {op.type for op in function.graph.walk()}:
            newer.setdefault(oldest_version(opset_of(type_)), set()).add(type_)
    for version, types in newer.items():
        listed = ", ".join(sorted(types)[:_LISTED])
        yield version, f"operations{where} of a newer opset ({listed}) need"


def check_weights(model: Model) -> None:
    """Checks that weight files hold every constant that programs refer to; nothing else of them is read.

    Raises:
        ModelError: A file is too short, damaged, or belongs to another model. Absent files are not errors.
    """
    for blob in list_blobs(model):
        if blob.is_available:
            blob.location()
