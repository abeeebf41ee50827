"""Markdown, for a pull request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from coremlscope.render.words import KINDS, bits_each, compact_type, count, histogram, model_name, size
from coremlscope.units import format_count

if TYPE_CHECKING:
    from coremlscope.profile.model import Profile
    from coremlscope.profile.summary import ModelSummary, OpSummary

__all__ = ["render_markdown"]


def render_markdown(subject: Profile | ModelSummary) -> str:
    """A report as Markdown with tables."""
    from coremlscope.profile.summary import ModelSummary

    blocks = _summary(subject) if isinstance(subject, ModelSummary) else _profile(subject)
    return "\n\n".join(blocks) + "\n"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; columns whose title ends with `>` are set flush right."""
    titles = [column.removesuffix(">") for column in columns]
    rules = ["---:" if column.endswith(">") else "---" for column in columns]
    lines = [titles, rules, *([_cell(text) for text in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\r", "").replace("\n", " ")


def code(text: str) -> str:
    """A name, set as code."""
    return f"`{text.replace('`', 'ʼ')}`"


def _summary(model: ModelSummary) -> list[str]:
    main = model.main
    facts = [
        f"{KINDS.get(model.kind, model.kind)}, specification {model.spec_version} ({model.platforms})",
        f"{size(model.size_bytes)} on disk",
    ]
    if model.weights:
        facts.append(f"{format_count(model.parameters)} parameters in {size(model.weights_bytes)}")
    if main.work is not None:
        at_least = "" if main.work.is_complete else "at least "
        facts.append(f"{at_least}{format_count(main.work.flops)} FLOPs a prediction (declared)")
    blocks = [f"## {_cell(model_name(model.path))}", " · ".join(facts)]
    if model.description:
        blocks.append(_cell(model.description))
    if model.missing_weights:
        blocks.append(f"⚠ weights absent: {', '.join(map(code, model.missing_weights))}")
    for function in model.functions:
        name = f" of {code(function.name)}" if len(model.functions) > 1 else ""
        for title, features in (
            ("Inputs", function.inputs), ("Outputs", function.outputs), ("States", function.states),
        ):  # fmt: skip
            if features:
                rows = [(code(f.name), f.type, f.flexibility, f.preprocessing or f.doc) for f in features]
                blocks += [f"### {title}{name}", table(("name", "type", "allows", "about"), rows)]
    if model.weights:
        groups = [
            (g.storage, g.dtype, str(g.tensors), format_count(g.parameters), size(g.nbytes),
             bits_each(g.nbytes, g.parameters))
            for g in model.weights
        ]  # fmt: skip
        titles = ("kept as", "used as", "tensors>", "parameters>", "bytes>", "bits each>")
        blocks += ["### Parameters", table(titles, groups)]
    if main.ops:
        blocks += ["### Operations", histogram(main.ops)]
    if model.op_list:
        blocks.append(_operations(model.op_list))
    return blocks


def _operations(ops: Iterable[OpSummary]) -> str:
    rows = [
        (code(op.id), op.type, code(op.name), ", ".join(map(compact_type, op.outputs)), count(op.flops))
        for op in ops
    ]
    return table(("id", "type", "name", "results", "FLOPs>"), rows)


def _profile(profile: Profile) -> list[str]:
    raise NotImplementedError
