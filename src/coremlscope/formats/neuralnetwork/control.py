"""Copies, branches and loops.

Nested networks share the blobs of the enclosing network. The blobs that a nested network overwrites are
results of the branch, or variables of the loop. Breaks and continues may be anywhere in the body of a loop:
they clear a flag, and the following layers are run only if the flag is set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from coremlscope.formats.neuralnetwork.builder import Blob, Builder, CannotTranslate
from coremlscope.formats.neuralnetwork.translation import LayerSpec, Translation
from coremlscope.model.ir import Graph, TensorType
from coremlscope.model.schema import Message
from coremlscope.ops.bind import join
from coremlscope.ops.view import BoundValue

# Internal values in the scope. Their names cannot collide with those of blobs.
#: True until the current iteration of the loop ends.
_ACTIVE = "\0active"
#: True until the loop ends.
_RUNNING = "\0running"
#: Number of completed iterations.
_COUNT = "\0count"

#: A branch treats smaller magnitudes as false (source: coremltools' `add_branch`).
_FALSE_BELOW = 1e-6
#: Maximum nesting depth of loops. Each loop is translated up to four times, until its variables' types
#: settle.
_MAX_DEPTH = 5


class _Layers(msgspec.Struct, frozen=True):
    """A sequence of layers with the interface of a network message."""

    layers: Sequence[Message]


def walk(layers: Iterable[Message]) -> Iterator[Message]:
    """Iterates over all layers, each before the layers of its nested networks."""
    for layer in layers:
        yield layer
        for network in _nested(layer):
            yield from walk(network.layers)


def written(layers: Iterable[Message]) -> Iterator[str]:
    """Iterates over the names of blobs that layers and their nested networks write, once per write."""
    for layer in walk(layers):
        yield from layer.output


def _read(layers: Iterable[Message]) -> Iterator[str]:
    for layer in walk(layers):
        yield from layer.input


def _nested(layer: Message) -> Sequence[Message]:
    match layer.WhichOneof("layer"):
        case "branch":
            return layer.branch.ifBranch, layer.branch.elseBranch
        case "loop":
            return layer.loop.conditionNetwork, layer.loop.bodyNetwork
        case _:
            return ()


def _jumps(layer: Message) -> bool:
    """True if a layer may end an iteration of the enclosing loop."""
    type_ = layer.WhichOneof("layer")
    if type_ == "branch":
        return any(_jumps(inner) for network in _nested(layer) for inner in network.layers)
    return type_ in ("loopBreak", "loopContinue")


# Sequences of layers


def _run(t: Translation, layers: Sequence[Message]) -> None:
    """Translates layers. Those after a possible break or continue are run only if none was executed."""
    b = t.builder
    at = next((i for i, layer in enumerate(layers) if _jumps(layer)), len(layers))
    if _ACTIVE not in b.scope or at + 1 >= len(layers):
        t.network(_Layers(layers))
        return
    t.network(_Layers(layers[: at + 1]))
    rest = layers[at + 1 :]
    if layers[at].WhichOneof("layer") != "branch":
        return  # layers after a break or continue are unreachable
    _choose(b, b.scope[_ACTIVE], lambda: _run(t, rest), lambda: None, _results(b, rest, ()))


def _results(b: Builder, one: Sequence[Message], other: Sequence[Message]) -> list[str]:
    """Returns the blobs that either branch overwrites or both branches write."""
    first, second = set(written(one)), set(written(other))
    names = sorted(n for n in first | second if n in b.scope or (n in first and n in second))
    if any(map(_jumps, (*one, *other))):
        names += [flag for flag in (_ACTIVE, _RUNNING) if flag in b.scope]
    return names


def _choose(
    b: Builder,
    condition: Blob,
    if_true: Callable[[], None],
    if_false: Callable[[], None],
    names: Sequence[str],
) -> None:
    """Emits a conditional with two branches, whose results are the blobs `names`."""
    if not names:
        return
    kinds: dict[str, Blob] = {}
    for _ in range(2):
        gaps: list[str] = []
        graphs = [
            _branch_graph(b, block, write, names, kinds, gaps)
            for block, write in (("true", if_true), ("false", if_false))
        ]
        if not gaps:
            break
    results = b.control("cond", len(names), graphs, pred=condition)
    b.scope.update(zip(names, results, strict=True))


def _branch_graph(
    b: Builder,
    block: str,
    write: Callable[[], None],
    names: Sequence[str],
    kinds: dict[str, Blob],
    gaps: list[str],
) -> Graph:
    """Creates the graph of one of two branches.

    Args:
        b: The builder.
        block: The role of the graph: `true` or `false`.
        write: Emits the operations of the branch.
        names: The blobs that the branch returns.
        kinds: Blobs by name, which are updated with those that the branch writes.
        gaps: Is extended by the names that the branch does not write because it ends early. It returns a
            placeholder with the shape in `kinds`, which is never read.
    """

    def run(_: Sequence[Blob]) -> Sequence[Blob]:
        write()
        results = []
        for name in names:
            if name in b.scope:
                kinds[name] = b.tensor(b.scope[name])
                results.append(kinds[name])
            else:
                gaps.append(name)
                shape = [dim or 1 for dim in kinds[name].dims] if name in kinds else [1]
                results.append(b.op("fill", shape=shape, value=0.0))
        return results

    return b.block(block, [], run)


def _check_effort(b: Builder) -> None:
    if b.layers_left <= 0:
        raise CannotTranslate("branches and loops inside each other take too long to translate")


# Copies and branches


def _copy(t: Translation) -> Blob:
    return replace(t.builder.op("identity", x=t.x), sequence=t.x.sequence)


def _first(b: Builder, x: Blob) -> Blob:
    """Returns the first element of a condition, which may have several."""
    flat = replace(x, sequence=None)
    if flat.bound.type.elements == 1:  # type: ignore[union-attr]
        return b.op("reshape", x=flat, shape=[])
    start = b.op("slice_by_index", x=b.op("reshape", x=flat, shape=[-1]), begin=[0], end=[1])
    return b.op("reshape", x=start, shape=[])


def _branch(t: Translation) -> Sequence[Blob]:
    b = t.builder
    _check_effort(b)
    if_layers, else_layers = list(t.params.ifBranch.layers), list(t.params.elseBranch.layers)
    _choose(
        b,
        b.op("greater", x=b.op("abs", x=_first(b, t.x)), y=_FALSE_BELOW),
        lambda: _run(t, if_layers),
        lambda: _run(t, else_layers),
        _results(b, if_layers, else_layers),
    )
    return [b.scope[name] for name in t.outputs]


# Loops


def _continue(t: Translation) -> Sequence[Blob]:
    b = t.builder
    if _ACTIVE not in b.scope:
        raise CannotTranslate("it is outside a loop")
    b.scope[_ACTIVE] = _flag(b, False)
    return ()


def _break(t: Translation) -> Sequence[Blob]:
    _continue(t)
    t.builder.scope[_RUNNING] = _flag(t.builder, False)
    return ()


def _flag(b: Builder, value: bool) -> Blob:
    return b.op("identity", x=np.array(value))


def _loop(t: Translation) -> Sequence[Blob]:
    """Translates a loop, whose variables are the blobs that its networks overwrite.

    The condition is computed before the loop and at the end of each iteration, so that the body can read and
    overwrite the blobs that the condition's network writes.
    """
    b, p = t.builder, t.params
    _check_effort(b)
    limit = _max_iterations(t)
    if limit is None and not p.conditionVar:
        return [b.scope[name] for name in t.outputs]
    if b.path.count("/body") >= _MAX_DEPTH:
        raise CannotTranslate(f"loops are nested deeper than {_MAX_DEPTH} levels")
    body, condition = list(p.bodyNetwork.layers), list(p.conditionNetwork.layers) if p.conditionVar else []
    outer = dict(b.scope)
    for flag in (_ACTIVE, _RUNNING):  # of an enclosing loop
        b.scope.pop(flag, None)
    _run(t, condition)
    read = set(_read(body))
    names = sorted(
        name
        for name in {*written(body), *written(condition)}
        if name in outer or (name in b.scope and name in read)
    )
    if p.conditionVar or any(map(_jumps, body)):
        b.scope[_RUNNING] = _condition(t) if p.conditionVar else _flag(b, True)
        names.append(_RUNNING)
    if limit is not None:
        b.scope[_COUNT] = b.op("identity", x=0)
        names.append(_COUNT)
    final = _repeat(b, names, lambda: _continues(b, limit), lambda: _iteration(t, body, condition))
    results = {n: blob for n, blob in zip(names, final, strict=True) if n in outer and not n.startswith("\0")}
    b.scope.clear()
    b.scope.update({**outer, **results})
    return [b.scope[name] for name in t.outputs]


def _max_iterations(t: Translation) -> Blob | int | None:
    """Returns the maximum number of iterations; None if it is unlimited."""
    if t.inputs:
        return t.builder.op("reshape", x=t.builder.indices(t.x), shape=[])
    return int(t.params.maxLoopIterations) or None


def _condition(t: Translation) -> Blob:
    b, name = t.builder, t.params.conditionVar
    if name not in b.scope:
        raise CannotTranslate(f"no layer computes its condition {name!r}")
    return _first(b, b.flags(b.scope[name]))


def _continues(b: Builder, limit: Blob | int | None) -> Blob:
    if limit is None:
        return b.scope[_RUNNING]
    fewer = b.op("less", x=b.scope[_COUNT], y=limit)
    return b.op("logical_and", x=b.scope[_RUNNING], y=fewer) if _RUNNING in b.scope else fewer


def _iteration(t: Translation, body: Sequence[Message], condition: Sequence[Message]) -> None:
    """Translates the body, and the condition of the next iteration."""
    b = t.builder
    if any(map(_jumps, body)):
        b.scope[_ACTIVE] = _flag(b, True)
    _run(t, body)
    b.scope.pop(_ACTIVE, None)
    if _COUNT in b.scope:
        b.scope[_COUNT] = b.op("add", x=b.scope[_COUNT], y=1)
    if condition:
        running = b.scope[_RUNNING]
        _run(t, condition)
        b.scope[_RUNNING] = b.op("logical_and", x=running, y=_condition(t))


def _repeat(
    b: Builder, names: Sequence[str], continues: Callable[[], Blob], iterate: Callable[[], None]
) -> tuple[Blob, ...]:
    """Emits the loop, with variable types that are valid before and after each iteration."""
    initial = [b.tensor(b.scope[name]) for name in names]
    variables = initial
    for opens in (False, False, True):
        graphs, after = _loop_graphs(b, names, variables, continues, iterate)
        settled = [_joined(v, a, opens) for v, a in zip(variables, after, strict=True)]
        if [v.bound.type for v in settled] == [v.bound.type for v in variables]:
            break
        variables = settled
    else:
        graphs, _ = _loop_graphs(b, names, variables, continues, iterate)
    return b.control("while_loop", len(names), graphs, loop_vars=initial)


def _loop_graphs(
    b: Builder,
    names: Sequence[str],
    variables: Sequence[Blob],
    continues: Callable[[], Blob],
    iterate: Callable[[], None],
) -> tuple[list[Graph], list[Blob]]:
    """Creates the graphs of a loop with variables of the given types.

    Returns:
        The graphs, and the variables after an iteration.
    """
    after: list[Blob] = []

    def test(given: Sequence[Blob]) -> Sequence[Blob]:
        b.scope.update(zip(names, given, strict=True))
        return [continues()]

    def run(given: Sequence[Blob]) -> Sequence[Blob]:
        b.scope.update(zip(names, given, strict=True))
        iterate()
        after.extend(b.tensor(b.scope[name]) for name in names)
        return after

    return [b.block("cond", variables, test), b.block("body", variables, run)], after


def _joined(before: Blob, after: Blob, opens: bool) -> Blob:
    """Returns a variable of the common type of both; if `opens`, all its dimensions are unknown."""
    if before.bound.type == after.bound.type:
        return before
    type_: Any = join(before.bound.type, after.bound.type)
    if opens and type_.shape is not None:
        type_ = TensorType(type_.dtype, (None,) * len(type_.shape))
    return replace(before, bound=BoundValue(type_))


LAYERS: tuple[LayerSpec, ...] = (
    LayerSpec("branch", _branch),
    LayerSpec("copy", _copy),
    LayerSpec("loop", _loop, (0, 1)),
    LayerSpec("loopBreak", _break, (0, 0)),
    LayerSpec("loopContinue", _continue, (0, 0)),
)
