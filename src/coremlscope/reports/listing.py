"""The models in a bundle."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path, PurePath

import msgspec

from coremlscope.base.units import format_bytes
from coremlscope.model.ir import kind_name
from coremlscope.reports.document import Block, Column, Hint, Item, Table, Title
from coremlscope.reports.json import render_values
from coremlscope.reports.words import plural
from coremlscope.results.model import BundleSummary, ListedModel

_COLUMNS = (
    Column("model", style="cyan"),
    Column("type", most=28, rank=1),
    Column("format", most=9),
    Column("functions", most=30, rank=2),
    Column("size", is_number=True),
)


def bundle_document(bundle: BundleSummary) -> Iterator[Block]:
    """Yields one row for each model, then what is wrong with some of them, and how to name one."""
    name = PurePath(bundle.path).name or Path(bundle.path).resolve().name or "/"
    yield Title(name, plural(len(bundle.models), "model"))
    yield Table(_COLUMNS, [_row(model) for model in bundle.models])
    for model in bundle.models:
        if model.problem:
            yield Item(f"{model.name}: {model.problem}", mark="!", style="warning")
    example = next((model for model in bundle.models if not model.problem), bundle.models[0])
    source = example.source if bundle.container == "folder" else f"{bundle.path}#{example.name}"
    yield Hint(f"more: `coremlscope inspect {shlex.quote(source)}`; other commands take the same name")


def _row(model: ListedModel) -> tuple[str, ...]:
    functions = model.functions if len(model.functions) > 1 else ()
    kind = kind_name(model.kind) or "unknown"
    return model.name, kind, model.container, ", ".join(functions), format_bytes(model.size_bytes)


def bundle_to_json(bundle: BundleSummary) -> str:
    """The listing as JSON text: `coremlscope.bundle/1`. Its sources are arguments of other verbs."""
    values = {"schema": "coremlscope.bundle/1", **msgspec.to_builtins(bundle)}
    return render_values(values, keeps_folders=True)
