"""What a child process does: it reads a bundle by coreai-core and writes it in MLIR's own encoding.

coreai-core ends its process on damaged files, so nothing of it is loaded in the parent. What the published
encoding has as text only, attributes and locations, is written next to the program, operation by operation in
the file's order.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from coremlscope.base.writing import open_draft, write_draft
from coremlscope.formats.aimodel.rewritten import OPERATIONS, PROGRAM, TEXT

#: The version of the bytecode that is written.
_VERSION = 6
#: Address space: what coreai-core maps, and so many times the file.
_RESERVED_BYTES, _RATIO = 6 << 30, 12
_LONGEST_TEXT = 4096
_COMPOSITE = "#coreai.composite_declaration<"


def rewrite(source: str, target: str) -> None:
    """Rewrites a bundle.

    Args:
        source: The bundle.
        target: The folder for the files.
    """
    bundle, folder = Path(source), Path(target)
    _hold_memory(_RESERVED_BYTES + _RATIO * (bundle / "main.mlirb").stat().st_size)
    from coreai.authoring import AIModelAsset

    program = AIModelAsset.load(bundle).program
    module = program._module._mlir_module
    with open_draft(folder / PROGRAM) as file:
        module.operation.write_bytecode(file, _VERSION)
    with module.context:
        ops = list(_describe_all(module.operation))
    write_draft(folder / OPERATIONS, json.dumps({"version": version("coreai-core"), "ops": ops}))


def _hold_memory(most_bytes: int) -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (most_bytes, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _describe_all(op: Any) -> Iterator[dict[str, Any]]:
    """Yields an operation and all nested ones, in the file's order."""
    yield _describe(op)
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield from _describe_all(inner.operation)


def _describe(op: Any) -> dict[str, Any]:
    from coreai._compiler._mlir_libs._coreaiIR._bindings import mlir as bindings

    number = bindings.get_operation_id(op.location, "coreai")
    sources = bindings.get_source_info(op.location)
    found: dict[str, Any] = {
        "name": op.name,
        "id": None if number is None else int(number.value),
        "nodes": [name for one in sources if one.name == "torch" for name in one.identifiers],
        "modules": list(bindings.get_stack_trace(op.location)),
    }
    if op.name != "coreai.constant":
        names = [getattr(one, "name", one) for one in op.attributes]
        found["attributes"] = {name: _plain(op.attributes[name]) for name in names}
    return found


def _plain(attribute: Any) -> Any:
    """Returns an attribute as JSON has it, or as its text."""
    from coreai._compiler import ir

    kinds: tuple[tuple[Any, Any], ...] = (
        (ir.BoolAttr, lambda one: bool(one.value)),
        (ir.IntegerAttr, int),
        (ir.FloatAttr, lambda one: float(one.value)),
        (ir.StringAttr, lambda one: str(one.value)),
        (ir.ArrayAttr, lambda one: [_plain(inner) for inner in one]),
        (ir.DictAttr, lambda one: {named.name: _plain(named.attr) for named in one}),
        (ir.UnitAttr, lambda _: True),
    )
    for kind, convert in kinds:
        if kind.isinstance(attribute):
            return convert(kind(attribute))
    text = str(attribute)
    if text.startswith(_COMPOSITE):
        return _plain(ir.Attribute.parse("{" + text[len(_COMPOSITE) : -1] + "}"))
    return {TEXT: text[:_LONGEST_TEXT]}
