"""A known hazard, and what recognizes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from coremlscope.base.findings import Confidence
from coremlscope.devices.unit import CPU, GPU, NEURAL_ENGINE, ComputeUnit
from coremlscope.formats.onnx.graph import Node, OnnxModel
from coremlscope.model.ir import Model
from coremlscope.planning.patterns.rule import (
    Example,
    GraphContext,
    GraphExample,
    GraphRule,
    Rule,
    Scope,
    Selection,
    When,
)
from coremlscope.planning.patterns.verdict import Effect
from coremlscope.results.hazard import Hazard, HazardKind, HazardPhase

#: What a hazard on a unit is to the placement; see `Effect`.
EFFECTS: Mapping[HazardKind, Effect] = {
    "refused": "fails",
    "silent fallback": "fails",
    "endless load": "hangs",
    "crash": "crashes",
    "wrong values": "corrupts",
}
_PREFIXES: Mapping[ComputeUnit, str] = {NEURAL_ENGINE: "ne", GPU: "gpu", CPU: "cpu"}


class OpPattern(msgspec.Struct, frozen=True, kw_only=True):
    """Forms of single operations; the fields are those of `Rule`."""

    ops: Selection
    when: When
    accepts: tuple[Example, ...]
    rejects: tuple[Example, ...] = ()


class GraphPattern(msgspec.Struct, frozen=True, kw_only=True):
    """Forms of functions; the fields are those of `GraphRule`."""

    find: Callable[[GraphContext], Mapping[str, str]]
    examples: tuple[GraphExample, ...]
    ops: Selection = ()


class Lines(msgspec.Struct, frozen=True, kw_only=True):
    """Lines of logs that report a hazard.

    Attributes:
        texts: A line contains at least one of them, in lower case.
        pattern: A regular expression that it matches as well; empty if the text is enough.
        examples: Lines that report it.
        negative_examples: Lines that do not.
    """

    texts: tuple[str, ...]
    pattern: str = ""
    examples: tuple[str, ...]
    negative_examples: tuple[str, ...]


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A session of ONNX Runtime with its Core ML provider.

    Attributes:
        model: The model.
        format: The format of Core ML models: `neuralnetwork` or `mlprogram`.
        is_static: Whether free dimensions stay with the CPU (RequireStaticInputShapes).
        nodes: The operators that the provider takes.
    """

    model: OnnxModel
    format: str
    is_static: bool = False
    nodes: Sequence[Node] = ()


class KnownHazard(msgspec.Struct, frozen=True, kw_only=True):
    """A known hazard: what happens, where, how that is known, what to do, and how a model shows it.

    Attributes:
        id: In kebab case. The rules of placement that it makes are named so behind `ne-`, `gpu-` or `cpu-`.
        kind: What happens.
        phase: When.
        text: The fact, for people. `{detail}` stands for what the pattern found.
        fix: What to do.
        source: Who published it, and where.
        confidence: How the source knows.
        units: Where it happens; empty where it does not depend on the unit.
        scope: Chips and systems for which it holds.
        core_ml: Core ML's own message, where that was published.
        pattern: Forms of operations or functions that show it.
        check: Yields how a model without its stages shows it: a clause that names what is wrong.
        session: Yields how a session of ONNX Runtime shows it, likewise.
        lines: Lines of logs that report it.
    """

    id: str
    kind: HazardKind
    phase: HazardPhase = "predict"
    text: str = ""
    fix: str
    source: str
    confidence: Confidence
    units: tuple[ComputeUnit, ...] = ()
    scope: Scope = Scope()
    core_ml: str = ""
    pattern: OpPattern | GraphPattern | None = None
    check: Callable[[Model], Iterator[str]] | None = None
    session: Callable[[Session], Iterator[str]] | None = None
    lines: Lines | None = None

    @property
    def is_everywhere(self) -> bool:
        """True where it holds on every unit, chip and system."""
        return len(self.units) in (0, len(_PREFIXES)) and self.scope == Scope()

    @property
    def rules(self) -> Iterator[Rule | GraphRule]:
        """Its pattern as rules of placement, one a unit."""
        for unit in self.units:
            yield self.rule(f"{_PREFIXES[unit]}-{self.id}", unit)

    def rule(self, id_: str, unit: ComputeUnit) -> Rule | GraphRule:
        """Returns its pattern as a rule.

        Args:
            id_: The id of the rule.
            unit: The unit that it is about.
        """
        same = {name: getattr(self, name) for name in ("fix", "source", "confidence", "scope", "core_ml")}
        same |= {"id": id_, "unit": unit, "effect": EFFECTS[self.kind], "message": self.text}
        match self.pattern:
            case OpPattern(ops=ops, when=when, accepts=accepts, rejects=rejects):
                return Rule(ops=ops, when=when, applies_to=accepts, negative_examples=rejects, **same)
            case GraphPattern(find=find, examples=examples, ops=ops):
                return GraphRule(find=find, examples=examples, ops=ops, **same)
        raise ValueError(f"the hazard {self.id} has no pattern")

    def met(self, text: str, **more: object) -> Hazard:
        """Returns the row as a hazard that a model meets.

        Args:
            text: What happens, with the model's own names and numbers.
            **more: Other fields of `Hazard`.
        """
        same = {name: getattr(self, name) for name in ("id", "kind", "phase", "fix", "source", "confidence")}
        return Hazard(**{**same, "units": self.units, "text": text, **more})
