"""The models in a bundle, for the console and as JSON."""

from __future__ import annotations

import shlex
from pathlib import Path, PurePath

import msgspec

from coremlscope.base.units import format_bytes
from coremlscope.model.ir import kind_name
from coremlscope.reports.json import render_values
from coremlscope.reports.terminal.screen import Column, Screen
from coremlscope.reports.words import plural
from coremlscope.results.model import BundleSummary, ListedModel

__all__ = ["bundle_to_json", "render_bundle"]

_COLUMNS = (
    Column("model", style="cyan"),
    Column("type", most=28),
    Column("format", most=9),
    Column("functions", most=30),
    Column("size", is_number=True),
)


def render_bundle(bundle: BundleSummary, *, width: int = 100, color: bool = False) -> str:
    """One row for each model, then what is wrong with some of them, and how to name one."""
    screen = Screen(width, color)
    name = PurePath(bundle.path).name or Path(bundle.path).resolve().name or "/"
    screen.title(name, f"  {plural(len(bundle.models), 'model')}")
    screen.table(_COLUMNS, [_row(model) for model in bundle.models])
    for model in bundle.models:
        if model.problem:
            screen.bullet("!", f"{model.name}: {model.problem}", style="yellow")
    screen.line()
    example = next((model for model in bundle.models if not model.problem), bundle.models[0])
    source = example.source if bundle.container == "folder" else f"{bundle.path}#{example.name}"
    screen.line(
        f"more: `coremlscope inspect {shlex.quote(source)}`; other commands take the same name", "dim"
    )
    return screen.text


def _row(model: ListedModel) -> tuple[str, ...]:
    functions = model.functions if len(model.functions) > 1 else ()
    kind = kind_name(model.kind) or "unknown"
    return model.name, kind, model.container, ", ".join(functions), format_bytes(model.size_bytes)


def bundle_to_json(bundle: BundleSummary) -> str:
    """The listing as JSON text: `coremlscope.bundle/1`. Its sources are arguments of other verbs."""
    values = {"schema": "coremlscope.bundle/1", **msgspec.to_builtins(bundle)}
    return render_values(values, keeps_folders=True)
