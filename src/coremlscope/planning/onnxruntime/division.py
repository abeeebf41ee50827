"""How ONNX Runtime divides a model for its Core ML provider: rounds of judging, grouping and expansion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

import msgspec

from coremlscope.formats.onnx.graph import Graph, Node, OnnxModel, sort_nodes
from coremlscope.planning.hazards.find import find_in_session
from coremlscope.planning.hazards.hazard import Session
from coremlscope.planning.onnxruntime.case import ProviderSettings
from coremlscope.planning.onnxruntime.expansion import Expansion, expand
from coremlscope.planning.onnxruntime.grouping import group
from coremlscope.planning.onnxruntime.judge import Judgement, judge
from coremlscope.planning.onnxruntime.quantisation import without_quantisation
from coremlscope.planning.onnxruntime.rules.rule import USE_FORMAT
from coremlscope.planning.onnxruntime.rules.table import FLOAT_MODEL, OPERATORS, TRIVIAL_DROPPED
from coremlscope.results.provider import LeftNode, LeftRule, ProviderFix, ProviderReport, Round

#: ONNX Runtime's line.
_LINE = (
    "[{level}:onnxruntime:, coreml_execution_provider.cc:{place} GetCapability]"
    " CoreMLExecutionProvider::GetCapability, number of partitions supported by CoreML: {partitions}"
    " number of nodes in the graph: {nodes} number of nodes supported by CoreML: {supported}"
)
#: Domain and type of the operator that stands for a partition.
_DOMAIN, _PARTITION = "coremlscope", "CoreMLPartition"
#: The first version of the format in which an initializer that is also an input may be overridden.
_OVERRIDABLE = 4
#: The rule on groups of trivial operators.
DROPPED = LeftRule(
    "trivial-group",
    "its partition has trivial operators alone, so it is dropped",
    "",
    "onnxruntime/core/providers/coreml/coreml_execution_provider.cc",
)


class Partition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition: one Core ML model.

    Attributes:
        nodes: Its operators.
        inputs: The values that it reads, without constants.
        outputs: The values that are read outside, or are outputs of the graph.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """The rounds of the model's graph.

    Attributes:
        rounds: One for each line of the log.
        partitions: The partitions of all rounds.
        outside: The operators that are in none.
        graph: The graph, with the operators that were expanded.
    """

    rounds: tuple[Round, ...]
    partitions: tuple[Partition, ...]
    outside: tuple[Node, ...]
    graph: Graph


class Division(msgspec.Struct, frozen=True, kw_only=True):
    """How a model is divided.

    Attributes:
        report: What is told of it.
        course: Its rounds.
        fixed: Its rounds after each fix of the report.
        verdicts: For each operator of the first round the rule that keeps it out; empty for none.
    """

    report: ProviderReport
    course: Course
    fixed: tuple[Course, ...] = ()
    verdicts: tuple[str, ...] = ()

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """The partitions of all rounds."""
        return self.course.partitions


def divide(
    model: OnnxModel, settings: ProviderSettings, basis: str = "", notes: Sequence[str] = ()
) -> Division:
    """Divides a model.

    Args:
        model: The model, with the graph that providers are asked about.
        settings: How a session uses the provider.
        basis: Which graph that is.
        notes: What else is known, as sentences.
    """
    bodies: list[Round] = []
    left: list[LeftNode] = []
    if settings.on_subgraphs:
        for outer, node in model.graph.walk():
            for body in node.bodies:
                one = _Round(body, settings, _judge(body, model, settings, (outer,)))
                bodies.append(one.report(node.label))
                left += one.left()
    judgement = _judge(model.graph, model, settings)
    rounds = _all_rounds(model, settings, judgement)
    first, course = rounds[0], _course(rounds)
    left += first.left()
    fixed = _fixes(first, model, settings, judgement)
    main = course.rounds[0]
    report = ProviderReport(
        format=settings.format,
        release=".".join(map(str, settings.release)),
        is_default=settings.format == "neuralnetwork",
        basis=basis,
        partitions=main.partitions,
        models=sum(given.partitions for given in (*bodies, *course.rounds)),
        inside=sum(given.supported for given in course.rounds),
        outside=len(course.outside),
        nodes=main.nodes,
        supported=main.supported,
        rounds=(*bodies, *course.rounds),
        left=tuple(left),
        notes=(*notes, *_notes(model, settings)),
        hazards=tuple(
            find_in_session(
                Session(
                    model=model,
                    format=settings.format,
                    is_static=settings.is_static,
                    nodes=[node for one in course.partitions for node in one.nodes],
                )
            )
        ),
        fixes=tuple(fix for fix, _ in fixed),
    )
    return Division(
        report=report,
        course=course,
        fixed=tuple(after for _, after in fixed),
        verdicts=tuple(
            "" if index in first.inside else first.reasons[index].id
            for index in range(len(first.graph.nodes))
        ),
    )


def _judge(
    graph: Graph, model: OnnxModel, settings: ProviderSettings, outer: tuple[Graph, ...] = ()
) -> Judgement:
    overridable = model.ir_version >= _OVERRIDABLE
    return judge(graph, model.opset, settings, outer=outer, overridable=overridable)


def _all_rounds(
    model: OnnxModel, settings: ProviderSettings, judgement: Judgement, allowed: Set[int] = frozenset()
) -> list[_Round]:
    """Returns the rounds of a model's graph; `allowed` are operators that no rule keeps out."""
    rounds = [_Round(model.graph, settings, judgement, allowed=allowed)]
    count = 0
    while (after := _expanded(rounds[-1], model, count)) is not None:
        count += len(rounds[-1].partitions)
        graph, fresh = after
        rounds.append(_Round(graph, settings, _judge(graph, model, settings), candidates=fresh))
    return rounds


def _course(rounds: Sequence[_Round]) -> Course:
    partitions = tuple(one for given in rounds for one in given.partitions)
    inside = {id(node) for one in partitions for node in one.nodes}
    graph = rounds[-1].graph
    return Course(
        rounds=tuple(given.report() for given in rounds),
        partitions=partitions,
        outside=tuple(node for node in graph.nodes if id(node) not in inside and node.domain != _DOMAIN),
        graph=graph,
    )


def _fixes(
    first: _Round, model: OnnxModel, settings: ProviderSettings, judgement: Judgement
) -> list[tuple[ProviderFix, Course]]:
    """Returns what follows if what a fix is for kept no operator out, fewest Core ML models first."""
    kept_out: dict[str, set[int]] = {}
    for index, rule in first.reasons.items():
        # What the other format makes of the model is a division of its own.
        if index not in first.inside and rule.fix and not rule.fix.startswith(USE_FORMAT):
            kept_out.setdefault(rule.fix, set()).add(index)
    found = []
    for text, members in kept_out.items():
        if text == FLOAT_MODEL:
            graph = without_quantisation(first.graph)
            floats = msgspec.structs.replace(model, graph=graph)
            course = _course(_all_rounds(floats, settings, _judge(graph, floats, settings)))
        else:
            course = _course(_all_rounds(model, settings, judgement, members))
        fix = ProviderFix(
            fix=text,
            count=len(members),
            models=len(course.partitions),
            supported=sum(given.supported for given in course.rounds),
        )
        found.append((fix, course))
    return sorted(found, key=lambda one: (one[0].models, -one[0].supported))


class _Round:
    """One graph that the provider is asked about.

    Args:
        graph: The graph.
        settings: How a session uses the provider.
        judgement: What the rules say of its operators.
        candidates: The results of the operators that no provider has yet; None for all.
        allowed: Operators that no rule keeps out.
    """

    def __init__(
        self,
        graph: Graph,
        settings: ProviderSettings,
        judgement: Judgement,
        *,
        candidates: frozenset[str] | None = None,
        allowed: Set[int] = frozenset(),
    ) -> None:
        self.graph, self.settings, self._allowed = graph, settings, allowed
        self.is_free = [candidates is None or node.outputs[0] in candidates for node in graph.nodes]
        taken = [
            is_free and (is_taken or index in allowed)
            for index, (is_free, is_taken) in enumerate(zip(self.is_free, judgement.taken, strict=True))
        ]
        groups = group(graph.nodes, taken)
        self.kept = [members for members in groups if not self._is_dropped(members)]
        self.inside = {index for members in self.kept for index in members}
        dropped = {index: DROPPED for members in groups for index in members if index not in self.inside}
        self.reasons = {**judgement.reasons, **dropped}
        readers: dict[str, set[int]] = {}
        for index, node in enumerate(graph.nodes):
            for name in node.reads():
                readers.setdefault(name, set()).add(index)
        returned = {one.name for one in graph.outputs}
        self.partitions = [self._partition(members, readers, returned) for members in self.kept]

    def _is_dropped(self, members: Sequence[int]) -> bool:
        return self.settings.release >= TRIVIAL_DROPPED and all(
            index not in self._allowed and _is_trivial(self.graph.nodes[index]) for index in members
        )

    def _partition(
        self, members: Sequence[int], readers: Mapping[str, set[int]], returned: Set[str]
    ) -> Partition:
        nodes, own = tuple(self.graph.nodes[index] for index in members), set(members)
        made = dict.fromkeys(name for node in nodes for name in node.outputs if name)
        read = dict.fromkeys(name for node in nodes for name in node.reads())
        constants = self.graph.constants.keys()
        return Partition(
            nodes=nodes,
            inputs=tuple(name for name in read if name not in made and name not in constants),
            outputs=tuple(name for name in made if name in returned or readers.get(name, set()) - own),
        )

    def report(self, label: str = "") -> Round:
        """Returns the line of the log."""
        partitions, nodes, supported = len(self.kept), len(self.graph.nodes), len(self.inside)
        return Round(
            graph=label,
            partitions=partitions,
            nodes=nodes,
            supported=supported,
            line=_LINE.format(
                level="W" if partitions > 1 else "I",
                place=_place(self.settings.release, partitions),
                partitions=partitions,
                nodes=nodes,
                supported=supported,
            ),
        )

    def left(self) -> list[LeftNode]:
        """Returns the operators outside, with reasons."""
        return [
            LeftNode(
                name=node.label,
                op=node.op if node.is_own else f"{node.domain}.{node.op}",
                rule=rule.id,
                reason=rule.reason,
                fix=rule.fix,
                source=rule.source,
            )
            for index, node in enumerate(self.graph.nodes)
            if index not in self.inside
            for rule in [self.reasons[index]]
        ]


def _is_trivial(node: Node) -> bool:
    row = OPERATORS.get(node.op)
    return row is not None and row.is_trivial


def _expanded(one: _Round, model: OnnxModel, before: int) -> tuple[Graph, frozenset[str]] | None:
    """Returns the graph of the next round and the results of its new operators; None if nothing expands."""
    types, constants = dict(one.graph.types), dict(one.graph.constants)
    groups = {index: place for place, members in enumerate(one.kept) for index in members}
    nodes: list[Node] = [
        Node(
            op=_PARTITION,
            domain=_DOMAIN,
            name=f"partition {before + place + 1}",
            inputs=partition.inputs,
            outputs=partition.outputs,
            attributes={},
        )
        for place, partition in enumerate(one.partitions)
    ]
    fresh: set[str] = set()
    for index, node in enumerate(one.graph.nodes):
        if index in groups:
            continue
        found = expand(node, model.opset, types) if one.is_free[index] else Expansion()
        for step in found.nodes:
            fresh.update(step.outputs)
        for name, type_ in found.types.items():
            types.setdefault(name, type_)
        constants.update(found.constants)
        nodes += found.nodes or (node,)
    if not fresh:
        return None
    graph = msgspec.structs.replace(one.graph, nodes=sort_nodes(nodes), types=types, constants=constants)
    return graph, frozenset(fresh)


def _place(release: tuple[int, int], partitions: int) -> str:
    """Returns the line of the source in the log; from 1.27 on it is the same for all counts."""
    if release >= TRIVIAL_DROPPED:
        return "137"
    return "113" if partitions > 1 else "115"


def _notes(model: OnnxModel, settings: ProviderSettings) -> list[str]:
    """Returns what a format does to every model of a type."""
    if model.is_half:
        return []
    if settings.format == "mlprogram":
        return ["MLProgram computes in float32 as the model does, so nothing runs on the Neural Engine"]
    return ["NeuralNetwork computes in half precision, where values beyond 65,504 overflow"]
