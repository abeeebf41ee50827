"""The provider's rules as a list: what holds for every operator, then operator by operator."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from coremlscope.base.errors import UsageError
from coremlscope.planning.onnxruntime.case import Release
from coremlscope.planning.onnxruntime.rules.general import CONDITIONS
from coremlscope.planning.onnxruntime.rules.rule import NEVER, OLDEST, Condition
from coremlscope.planning.onnxruntime.rules.table import FORMAT_NAMES, OPERATORS

_TAKEN = "taken"


class ProviderRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule: that an operator is taken, or a condition under which it is not.

    Attributes:
        id: The id of the condition; `taken` for the row of the operator.
        op: The operator; empty for all.
        text: What holds.
        formats: The formats for which it holds, with the first release of each.
        until: The first release for which it no longer holds; empty if there is none.
        fix: What to change.
        source: The file of microsoft/onnxruntime.
    """

    id: str
    op: str
    text: str
    formats: tuple[str, ...]
    until: str = ""
    fix: str = ""
    source: str = ""


def list_provider_rules(op: str | None = None, rule: str | None = None) -> list[ProviderRule]:
    """Lists the rules of ONNX Runtime's Core ML provider.

    Args:
        op: Only those of this operator.
        rule: Only that with this id.

    Raises:
        UsageError: There are none.
    """
    found = [one for one in _rules() if op in (None, one.op) and rule in (None, one.id)]
    if not found:
        raise UsageError(
            f"there is no such rule of the provider: {rule or op}",
            "an operator without rules has no builder, so it is never taken",
        )
    return found


def _rules() -> Iterator[ProviderRule]:
    for one in CONDITIONS:
        yield _condition("", one, "")
    for row in OPERATORS.values():
        yield ProviderRule(
            id=_TAKEN,
            op=row.op,
            text=f"taken, from opset {row.least_opset} on",
            formats=tuple(f"{FORMAT_NAMES[name]} {_text(first)}" for name, first in row.formats.items()),
            source=row.source,
        )
        for one in row.conditions:
            yield _condition(row.op, one, row.source)


def _condition(op: str, one: Condition, source: str) -> ProviderRule:
    return ProviderRule(
        id=one.id,
        op=op,
        text=f"not taken where {one.reason}",
        formats=tuple(f"{FORMAT_NAMES[name]} {_text(one.since)}" for name in one.formats),
        until="" if one.until == NEVER else _text(one.until),
        fix=one.fix,
        source=one.source or source,
    )


def _text(release: Release) -> str:
    words = ".".join(map(str, release))
    return f"{words} or before" if release == OLDEST else words
