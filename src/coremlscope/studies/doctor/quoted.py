"""What Core ML says where a placement rule applies: such a text is explained by the rule itself."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping

from coremlscope.ops import OPS
from coremlscope.planning.hazards import HAZARDS
from coremlscope.planning.hazards.lines.failure import Failure
from coremlscope.planning.patterns.rule import EVERY_OP, GraphRule, Rule
from coremlscope.planning.placement.rules import GRAPH_RULES, RULES

#: Parts of a quoted text that differ from model to model: placeholders, names in quotation marks, numbers.
_VARIABLE = re.compile(r'"?\{(?:operation|operand)\}"?|\d+')
_LONGEST_NAME = 200


def _pattern(text: str) -> str:
    """The text as a pattern in which every number and every placeholder stands for any other."""
    text, parts, end = text.rstrip("."), [], 0
    for match in _VARIABLE.finditer(text):
        parts.append(re.escape(text[end : match.start()]))
        parts.append(r"\d+" if match[0].isdigit() else rf'"?[\w./]{{1,{_LONGEST_NAME}}}"?')
        end = match.end()
    return "".join((*parts, re.escape(text[end:])))


def _literal(text: str) -> str:
    """The longest part of the text that does not vary, in lower case."""
    return max(_VARIABLE.split(text.rstrip(".")), key=len).strip().lower()


def _failures(rules: Iterable[Rule | GraphRule]) -> Iterable[Failure]:
    by_text: dict[str, list[Rule | GraphRule]] = {}
    for rule in rules:
        if rule.core_ml:
            by_text.setdefault(_pattern(rule.core_ml), []).append(rule)
    for pattern, same in by_text.items():
        first = same[0]
        statement = first.message.partition(": {detail}")[0].replace("{detail}", "…")
        yield Failure(
            id=first.id,
            texts=(_literal(first.core_ml),),
            pattern=pattern,
            cause=f"{statement[0].upper()}{statement[1:]}.",
            fix=first.fix,
            source=first.source,
            confidence=first.confidence,
            op=_operation(first),
            rules=tuple(rule.id for rule in same),
            examples=(first.core_ml.replace("{operation}", "a").replace("{operand}", "b"),),
            negative_examples=("",),
        )


def _operation(rule: Rule | GraphRule) -> str:
    ops = rule.ops if isinstance(rule, Rule) else EVERY_OP
    return ops[0] if len(ops) == 1 and isinstance(ops[0], str) and ops[0] in OPS else ""


def _hazards() -> Iterable[Failure]:
    for row in HAZARDS:
        if row.lines is None:
            continue
        statement = row.text.partition(": {detail}")[0] or (inspect.getdoc(row.check) or "").rstrip(".")
        yield Failure(
            id=row.id,
            cause=f"{statement[0].upper()}{statement[1:]}.",
            fix=row.fix,
            source=row.source,
            confidence=row.confidence,
            rules=tuple(rule.id for rule in row.rules),
            **{name: getattr(row.lines, name) for name in row.lines.__struct_fields__},
        )


#: The known hazards with lines of logs.
HAZARD_LINES: tuple[Failure, ...] = tuple(_hazards())

#: A row for each text that rules quote. Rules that quote the same one share a row.
QUOTED: Mapping[str, Failure] = {row.id: row for row in _failures((*RULES, *GRAPH_RULES))}
