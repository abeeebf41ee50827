"""Control flow: branches and loops."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from coremlscope.model.ir import Argument, Constant, Graph, ListType, Op, Shape, TensorType, Value, ValueType
from coremlscope.ops.bind import Binder, join, simulation_effort
from coremlscope.ops.emit import BOOL, I64, Lowering, NumpyType, Tensor, carry
from coremlscope.ops.spec import OpSpec, Work, work_of
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import BoundGraph, BoundValue, CannotInfer, CannotLower, OpView

# cond


def _taken(view: OpView) -> int | None:
    """Which block runs, where that is known before run time."""
    if not view.is_known("pred"):
        return None
    return 0 if view.flag("pred") else 1


def _infer_cond(view: OpView) -> Sequence[ValueType]:
    taken = _taken(view)
    if taken is not None:
        return [bound.type for bound in view.blocks[taken].outputs]
    true, false = view.blocks
    if len(true.outputs) != len(false.outputs):
        raise CannotInfer("its branches have different numbers of results")
    return [join(a.type, b.type) for a, b in zip(true.outputs, false.outputs, strict=True)]


def _fold_cond(view: OpView) -> Sequence[Constant] | None:
    taken = _taken(view)
    if taken is None or any(op.op.type == "write_state" for op in view.blocks[taken].ops):
        return None
    constants = [bound.constant for bound in view.blocks[taken].outputs]
    return None if None in constants else [c for c in constants if c is not None]


def _lower_cond(op: Lowering) -> Sequence[Tensor]:
    taken = _taken(op.view)
    names = op.written_states()
    states = {name: op.state(name) for name in names}
    if taken is not None:
        results, states = op.block(taken, (), states)
        for name, tensor in states.items():
            op.put_state(name, tensor)
        return results

    dtypes = [_carried(bound.type) for bound in op.view.outputs] + [states[name].dtype for name in names]

    def branch(index: int) -> Sequence[Tensor]:
        results, after = op.block(index, (), states)
        given = [*results, *(after[name] for name in names)]
        return [op.cast(tensor, dtype) for tensor, dtype in zip(given, dtypes, strict=True)]

    name = op.view.op.id
    then_graph, _ = op.graph(f"{name}/true", [], lambda _: branch(0))
    else_graph, _ = op.graph(f"{name}/false", [], lambda _: branch(1))
    made = op.emit_many("If", op["pred"], dtypes=dtypes, then_branch=then_graph, else_branch=else_graph)
    return _split_states(op, made, names)


def _split_states(op: Lowering, made: Sequence[Tensor], names: Sequence[str]) -> Sequence[Tensor]:
    """Splits the new content of states from the results of a nested graph."""
    count = len(made) - len(names)
    for name, tensor in zip(names, made[count:], strict=True):
        op.put_state(name, tensor)
    return made[:count]


def _carried(type_: ValueType) -> NumpyType:
    element = type_.element if isinstance(type_, ListType) else type_
    if not isinstance(element, TensorType):
        raise CannotLower("a value that is neither a tensor nor a list of tensors")
    return carry(element.dtype)


def _work_cond(view: OpView) -> Work:
    """The work of the branch that runs; of the cheaper one where that is not known."""
    taken = _taken(view)
    if taken is not None:
        return _work_of(view.blocks[taken])
    true, false = map(_work_of, view.blocks)
    if true == false:
        return true
    return Work(
        flops=min(true.flops, false.flops),
        read_bytes=min(true.read_bytes, false.read_bytes),
        weight_bytes=min(true.weight_bytes, false.weight_bytes),
        written_bytes=min(true.written_bytes, false.written_bytes),
        is_complete=False,
    )


def _work_of(graph: BoundGraph) -> Work:
    """The total work of all operations of a block."""
    from coremlscope.ops import OPS as TABLE

    total = Work()
    for view in graph.ops:
        spec = TABLE.get(view.op.type)
        folded = bool(view.outputs) and all(bound.constant is not None for bound in view.outputs)
        if spec is not None and not folded:
            total += work_of(spec, view) or Work(is_complete=False)
    return total


# while_loop


def _infer_loop(view: OpView) -> Sequence[ValueType]:
    # Binding found types that hold before and after every iteration.
    return [bound.type for bound in view.blocks[-1].inputs]


#: How often an operation may be lowered: a condition is lowered before the loop and in its body.
_MOST_COPIES = 64


def _copies(graph: Graph) -> int:
    """Returns how often the operations of a graph are lowered at most."""
    most = 1
    for op in graph.ops:
        for index, block in enumerate(op.blocks):
            is_condition = op.type == "while_loop" and index == 0
            most = max(most, _copies(block) * (2 if is_condition else 1))
    return most


def _lower_loop(op: Lowering) -> Sequence[Tensor]:
    condition, body = op.view.blocks
    if _copies(condition.graph) * 2 > _MOST_COPIES:
        raise CannotLower("loops in conditions of loops, many levels deep")
    if any(inner.type == "write_state" for inner in condition.graph.walk()):
        raise CannotLower("a state written in the condition of a loop")
    names = op.written_states()
    initial = op.all("loop_vars")
    count = len(initial)
    initial += [op.state(name) for name in names]

    def goes_on(variables: Sequence[Tensor], states: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        (result,), after = op.block(0, variables, dict(zip(names, states, strict=True)))
        is_scalar = isinstance(type_ := condition.outputs[0].type, TensorType) and type_.shape == ()
        return result if is_scalar else op.reshape(result, []), [after[name] for name in names]

    def one_pass(arguments: list[Tensor]) -> Sequence[Tensor]:
        _, _, *carried = arguments
        results, after = op.block(1, carried[:count], dict(zip(names, carried[count:], strict=True)))
        given = [*results, *(after[name] for name in names)]
        made = [op.cast(tensor, before.dtype) for tensor, before in zip(given, initial, strict=True)]
        more, states = goes_on(made[:count], made[count:])
        return [more, *made[:count], *states]

    shapes = [_stacked_shape(bound.type) for bound in body.inputs] + [None] * len(names)
    kinds: list[NumpyType | str] = [I64, BOOL, *(tensor.dtype for tensor in initial)]
    inputs = list(zip(kinds, [(), (), *shapes], strict=True))
    start, initial[count:] = goes_on(initial[:count], initial[count:])
    graph, (_, *dtypes) = op.graph(f"{op.view.op.id}/body", inputs, one_pass)
    made = op.emit_many("Loop", None, start, *initial, dtypes=dtypes, body=graph)
    return _split_states(op, made, names)


def _stacked_shape(type_: ValueType) -> Shape | None:
    """The shape of the tensor that carries a value; of a list, all its elements stacked."""
    match type_:
        case TensorType(_, shape):
            return shape
        case ListType(TensorType(_, shape), length) if shape is not None:
            return (length, *shape)
        case _:
            return None


def _work_loop(view: OpView) -> Work:
    """The work of condition and body times the iterations; of one where their number is not known."""
    condition, body = map(_work_of, view.blocks)
    passes = trip_count(view)
    if passes is None:
        return replace(condition + body, is_complete=False)
    return condition * (passes + 1) + body * passes


def trip_count(view: OpView) -> int | None:
    """How often the body of a `while_loop` runs, where that is known before run time.

    This covers integer counters that change by a constant and are compared with a constant, several such
    conditions joined by `logical_and`, and any condition that depends only on small constants, as far as it
    is simulated quickly.
    """
    if not view.blocks[0].graph.outputs:
        return None

    def passes() -> int | None:
        known = _passes(view, view.blocks[0].graph.outputs[0])
        return _Simulation(view).passes() if known is None else known

    return view.remember(_TRIPS, passes)


def trip_limit(view: OpView) -> int | None:
    """How often the body of a `while_loop` runs at most, where a part of its condition is a known counter."""
    condition = view.blocks[0]
    return _passes(view, condition.graph.outputs[0], is_limit=True) if condition.graph.outputs else None


def _passes(view: OpView, result: Argument, *, is_limit: bool = False) -> int | None:
    """Iterations until `result`, a value of the condition's block, becomes false; as a limit, at most."""
    maker = _maker(view.blocks[0], result)
    if maker is None:
        return None
    if maker.op.type == "logical_and":
        counts = [_passes(view, maker.op.inputs[name][0], is_limit=is_limit) for name in ("x", "y")]
        known = [count for count in counts if count is not None]
        return min(known) if known and (is_limit or len(known) == len(counts)) else None
    if maker.op.type not in _MIRRORED:
        return None
    x, y = (_progress(view, maker, name) for name in ("x", "y"))
    if x is None or y is None or (x[1] and y[1]):
        return None
    relation = maker.op.type
    if y[1]:
        x, y, relation = y, x, _MIRRORED[relation]
    return _count(relation, *x, y[0])


#: The key of the number of iterations among the cached results of a loop.
_TRIPS = "trip count"
#: Operations that are simulated at most, for a loop and for all loops of a function: 40,000 take about a
#: second.
_MOST_SIMULATED, _MOST_IN_ALL = 40_000, 60_000
#: Elements of a value that a simulated condition may depend on.
_MOST_ELEMENTS = 64


class _Simulation:
    """Computes the condition of a loop, iteration by iteration, and the variables that it depends on."""

    def __init__(self, view: OpView) -> None:
        from coremlscope.ops import OPS as TABLE

        self.view = view
        self.binder = Binder(TABLE, view.opset)
        self.condition, self.body = view.blocks
        self.test: list[Op] = []
        self.step: list[Op] = []
        #: The variables that the condition depends on.
        self.variables: list[int] = []
        self.outer: dict[str, BoundValue] = {}

    def passes(self) -> int | None:
        """Returns the number of iterations; None where it is not known or too large."""
        effort = simulation_effort(self.view)
        most = min(_MOST_SIMULATED, _MOST_IN_ALL - effort.bound)
        try:
            return self._simulate(most)
        finally:
            effort.bound += self.binder.bound

    def _simulate(self, most: int) -> int | None:
        self._slice()
        given = [self.view.inputs["loop_vars"][index] for index in self.variables]
        for passes in range(max(most, 0)):
            if self.binder.bound > most or not all(map(_is_small, given)):
                return None
            inputs = [self.condition.graph.inputs[index].name for index in self.variables]
            (result,) = self._run(self.test, inputs, given, [self.condition.graph.outputs[0].name])
            if result.constant is None or not result.constant.is_available:
                return None
            if not result.constant.numpy().reshape(-1).all():
                return passes
            inputs = [self.body.graph.inputs[index].name for index in self.variables]
            after = [self.body.graph.outputs[index].name for index in self.variables]
            given = self._run(self.step, inputs, given, after)
        return None

    def _slice(self) -> None:
        """Finds the variables that the condition depends on, and the operations that compute them."""
        self.test, read = self._needed(self.condition, {self.condition.graph.outputs[0].name})
        wanted = _places(self.condition, read)
        while True:
            after = {self.body.graph.outputs[index].name for index in wanted}
            self.step, read = self._needed(self.body, after)
            more = wanted | _places(self.body, read)
            if more == wanted:
                break
            wanted = more
        self.variables = sorted(wanted)

    def _needed(self, graph: BoundGraph, names: set[str]) -> tuple[list[Op], set[str]]:
        """Returns the operations that compute values, and the names of all values that are read."""
        names, found = set(names), []
        for view in reversed(graph.ops):
            if names.isdisjoint(value.name for value in view.op.outputs):
                continue
            found.append(view.op)
            names |= self._read(view)
        return found[::-1], names

    def _read(self, view: OpView) -> set[str]:
        """Returns the names that an operation and its blocks read, and notes what is known of the values."""
        names = set()
        for parameter, given in view.op.inputs.items():
            for argument, bound in zip(given, view.inputs[parameter], strict=True):
                if isinstance(argument, Value):
                    names.add(argument.name)
                    self.outer.setdefault(argument.name, bound)
        for block in view.blocks:
            names |= {value.name for value in block.graph.outputs}
            for inner in block.ops:
                names |= self._read(inner)
        return names

    def _run(
        self, ops: Sequence[Op], inputs: Sequence[str], given: Sequence[BoundValue], results: Sequence[str]
    ) -> list[BoundValue]:
        scope = {**self.outer, **dict(zip(inputs, given, strict=True))}
        for op in ops:
            outputs = self.binder.op(op, scope).outputs
            scope.update(zip((value.name for value in op.outputs), outputs, strict=True))
        return [scope[name] for name in results]


def _places(graph: BoundGraph, names: set[str]) -> set[int]:
    """Returns the places of the graph's inputs with these names."""
    return {index for index, value in enumerate(graph.graph.inputs) if value.name in names}


def _is_small(value: BoundValue) -> bool:
    constant = value.constant
    if constant is None or not constant.is_available or not isinstance(constant.type, TensorType):
        return False
    return (constant.type.elements or 0) <= _MOST_ELEMENTS


#: The comparison with its operands swapped.
_MIRRORED = {
    "less": "greater",
    "less_equal": "greater_equal",
    "greater": "less",
    "greater_equal": "less_equal",
    "not_equal": "not_equal",
}


def _count(relation: str, start: int, step: int, limit: int) -> int | None:
    """The first n for which `start + n * step` is not in `relation` to `limit`; None if there is none."""
    if relation.startswith("greater"):
        return _count(_MIRRORED[relation], -start, -step, -limit)
    if relation == "less_equal":
        return _count("less", start, step, limit + 1)
    distance = limit - start
    if relation == "not_equal":
        reached = distance == 0 if step == 0 else distance % step == 0 and distance // step >= 0
        return (distance // step if step else 0) if reached else None
    if distance <= 0:
        return 0
    return -(-distance // step) if step > 0 else None


def _progress(view: OpView, maker: OpView, name: str) -> tuple[int, int] | None:
    """The initial value of an operand of the condition, and its increment per iteration."""
    constant = maker.bound(name).constant
    if constant is not None:
        known = _integer(constant)
        return None if known is None else (known, 0)
    argument = maker.op.inputs[name][0]
    condition, body = view.blocks
    if argument not in condition.graph.inputs:
        return None
    index = condition.graph.inputs.index(argument)
    start = view.inputs["loop_vars"][index].constant
    step = _step(body, index)
    first = None if start is None else _integer(start)
    return None if first is None or step is None else (first, step)


def _step(body: BoundGraph, index: int) -> int | None:
    """The constant that each iteration adds to a loop variable; None where it changes otherwise."""
    before, after = body.graph.inputs[index], body.graph.outputs[index]
    if before == after:
        return 0
    maker = _maker(body, after)
    if maker is None or maker.op.type not in ("add", "sub"):
        return None
    for one, other in (("x", "y"), ("y", "x")):
        constant = maker.bound(other).constant
        if maker.op.inputs[one][0] == before and constant is not None:
            step = _integer(constant)
            if maker.op.type == "add" or step is None:
                return step
            return -step if one == "x" else None
    return None


def _maker(graph: BoundGraph, value: Argument) -> OpView | None:
    return next((view for view in graph.ops if value in view.op.outputs), None)


def _integer(constant: Constant) -> int | None:
    type_ = constant.type
    if not isinstance(type_, TensorType) or not type_.dtype.is_int or type_.elements != 1:
        return None
    return int(constant.item())


OPS: tuple[OpSpec, ...] = (
    OpSpec(
        name="cond",
        doc="Runs one of two blocks, depending on a condition.",
        traits=Trait.CONTROL_FLOW,
        infer=_infer_cond,
        lower=_lower_cond,
        work=_work_cond,
        fold=_fold_cond,
    ),
    OpSpec(
        name="while_loop",
        doc="Runs a block repeatedly while a condition holds.",
        traits=Trait.CONTROL_FLOW,
        infer=_infer_loop,
        lower=_lower_loop,
        work=_work_loop,
    ),
)
