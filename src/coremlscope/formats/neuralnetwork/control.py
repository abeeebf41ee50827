"""Copies, branches and loops.

Networks nested in a layer share the blobs of the network around them. What such a network writes over is a
result of the branch, or a variable of the loop. Breaks and continues may stand anywhere in the body of a
loop: a flag says that one was met, and whatever would follow is run under the condition that none was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from coremlscope.formats.neuralnetwork.builder import Blob, Builder, CannotTranslate
from coremlscope.formats.neuralnetwork.layer import LayerSpec, Translation
from coremlscope.ir import Graph, TensorType
from coremlscope.ops.bind import join
from coremlscope.ops.view import BoundValue
from coremlscope.schema import Message

__all__ = ["LAYERS", "walk", "written"]

# What the scope holds besides the blobs of layers, under names that no tool gives a blob.
#: False once this pass of the loop is over.
_ACTIVE = "\0active"
#: False once the loop is over.
_GOES_ON = "\0goes on"
#: How many passes were made.
_COUNT = "\0count"

#: A branch takes what is this near to zero for false (coremltools' `add_branch` says so).
_FALSE_BELOW = 1e-6
#: How deep loops may be nested: each is translated up to four times until its variables' types settle.
_DEEPEST = 5


@dataclass(frozen=True, slots=True)
class _Layers:
    """Some layers, as if they were a network."""

    layers: Sequence[Message]


def walk(layers: Iterable[Message]) -> Iterator[Message]:
    """All layers, each before those of the networks nested in it."""
    for layer in layers:
        yield layer
        for network in _nested(layer):
            yield from walk(network.layers)


def written(layers: Iterable[Message]) -> Iterator[str]:
    """The blobs that layers, and the networks nested in them, write; as often as they write them."""
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
    """True where a layer may end a pass of the loop around it."""
    type_ = layer.WhichOneof("layer")
    if type_ == "branch":
        return any(_jumps(inner) for network in _nested(layer) for inner in network.layers)
    return type_ in ("loopBreak", "loopContinue")


# Layers in their order


def _run(t: Translation, layers: Sequence[Message]) -> None:
    """Translates layers, all after a possible break or continue under the condition that none was met."""
    b = t.builder
    at = next((i for i, layer in enumerate(layers) if _jumps(layer)), len(layers))
    if _ACTIVE not in b.scope or at + 1 >= len(layers):
        t.network(_Layers(layers))
        return
    t.network(_Layers(layers[: at + 1]))
    rest = layers[at + 1 :]
    if layers[at].WhichOneof("layer") != "branch":
        return  # nothing is reached after a break or a continue
    _choose(b, b.scope[_ACTIVE], lambda: _run(t, rest), lambda: None, _results(b, rest, ()))


def _results(b: Builder, one: Sequence[Message], other: Sequence[Message]) -> list[str]:
    """What two ways write of what exists already, and what both of them write."""
    first, second = set(written(one)), set(written(other))
    names = sorted(n for n in first | second if n in b.scope or (n in first and n in second))
    if any(map(_jumps, (*one, *other))):
        names += [flag for flag in (_ACTIVE, _GOES_ON) if flag in b.scope]
    return names


def _choose(
    b: Builder,
    condition: Blob,
    if_true: Callable[[], None],
    if_false: Callable[[], None],
    names: Sequence[str],
) -> None:
    """Writes the blobs `names` by one of two ways."""
    if not names:
        return
    kinds: dict[str, Blob] = {}
    for _ in range(2):
        gaps: list[str] = []
        graphs = [
            _way(b, block, write, names, kinds, gaps)
            for block, write in (("true", if_true), ("false", if_false))
        ]
        if not gaps:
            break
    results = b.control("cond", len(names), graphs, pred=condition)
    b.scope.update(zip(names, results, strict=True))


def _way(
    b: Builder,
    block: str,
    write: Callable[[], None],
    names: Sequence[str],
    kinds: dict[str, Blob],
    gaps: list[str],
) -> Graph:
    """One of two ways.

    Where it breaks off before it has written a blob, a filler, which nothing reads, stands for the blob, of
    the shape that `kinds` tells; its name goes to `gaps`.
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


# Copies and branches


def _copy(t: Translation) -> Blob:
    return replace(t.builder.op("identity", x=t.x), sequence=t.x.sequence)


def _first(b: Builder, x: Blob) -> Blob:
    """The number that decides: conditions of more numbers are accepted, and the first of them counts."""
    flat = replace(x, sequence=None)
    if flat.bound.type.elements == 1:  # type: ignore[union-attr]
        return b.op("reshape", x=flat, shape=[])
    start = b.op("slice_by_index", x=b.op("reshape", x=flat, shape=[-1]), begin=[0], end=[1])
    return b.op("reshape", x=start, shape=[])


def _branch(t: Translation) -> Sequence[Blob]:
    b = t.builder
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
        raise CannotTranslate("it stands outside of a loop")
    b.scope[_ACTIVE] = _flag(b, False)
    return ()


def _break(t: Translation) -> Sequence[Blob]:
    _continue(t)
    t.builder.scope[_GOES_ON] = _flag(t.builder, False)
    return ()


def _flag(b: Builder, value: bool) -> Blob:
    return b.op("identity", x=np.array(value))


def _loop(t: Translation) -> Sequence[Blob]:
    """A loop whose variables are what its networks write over.

    Its condition is computed ahead of the loop and at the end of each pass: so the body can read, and write
    over, what the condition's network writes.
    """
    b, p = t.builder, t.params
    most = _most_passes(t)
    if most is None and not p.conditionVar:
        return [b.scope[name] for name in t.outputs]
    if b.path.count("/body") >= _DEEPEST:
        raise CannotTranslate(f"loops are nested more than {_DEEPEST} deep")
    body, condition = list(p.bodyNetwork.layers), list(p.conditionNetwork.layers) if p.conditionVar else []
    around = dict(b.scope)
    for flag in (_ACTIVE, _GOES_ON):  # those of a loop around this one
        b.scope.pop(flag, None)
    _run(t, condition)
    read = set(_read(body))
    names = sorted(
        name
        for name in {*written(body), *written(condition)}
        if name in around or (name in b.scope and name in read)
    )
    if p.conditionVar or any(map(_jumps, body)):
        b.scope[_GOES_ON] = _condition(t) if p.conditionVar else _flag(b, True)
        names.append(_GOES_ON)
    if most is not None:
        b.scope[_COUNT] = b.op("identity", x=0)
        names.append(_COUNT)
    made = _repeat(b, names, lambda: _goes_on(b, most), lambda: _pass(t, body, condition))
    results = {n: blob for n, blob in zip(names, made, strict=True) if n in around and not n.startswith("\0")}
    b.scope.clear()
    b.scope.update({**around, **results})
    return [b.scope[name] for name in t.outputs]


def _most_passes(t: Translation) -> Blob | int | None:
    """The greatest number of passes, where there is one."""
    if t.inputs:
        return t.builder.op("reshape", x=t.builder.indices(t.x), shape=[])
    return int(t.params.maxLoopIterations) or None


def _condition(t: Translation) -> Blob:
    b, name = t.builder, t.params.conditionVar
    if name not in b.scope:
        raise CannotTranslate(f"its condition {name!r} is given by no layer")
    return _first(b, b.flags(b.scope[name]))


def _goes_on(b: Builder, most: Blob | int | None) -> Blob:
    if most is None:
        return b.scope[_GOES_ON]
    fewer = b.op("less", x=b.scope[_COUNT], y=most)
    return b.op("logical_and", x=b.scope[_GOES_ON], y=fewer) if _GOES_ON in b.scope else fewer


def _pass(t: Translation, body: Sequence[Message], condition: Sequence[Message]) -> None:
    """The body, and the condition of the next pass."""
    b = t.builder
    if any(map(_jumps, body)):
        b.scope[_ACTIVE] = _flag(b, True)
    _run(t, body)
    b.scope.pop(_ACTIVE, None)
    if _COUNT in b.scope:
        b.scope[_COUNT] = b.op("add", x=b.scope[_COUNT], y=1)
    if condition:
        going = b.scope[_GOES_ON]
        _run(t, condition)
        b.scope[_GOES_ON] = b.op("logical_and", x=going, y=_condition(t))


def _repeat(
    b: Builder, names: Sequence[str], goes_on: Callable[[], Blob], one_pass: Callable[[], None]
) -> tuple[Blob, ...]:
    """Emits the loop, with variables of types that hold before and after each pass."""
    initial = [b.tensor(b.scope[name]) for name in names]
    variables = initial
    for opens in (False, False, True):
        graphs, after = _loop_graphs(b, names, variables, goes_on, one_pass)
        settled = [_joined(v, a, opens) for v, a in zip(variables, after, strict=True)]
        if [v.bound.type for v in settled] == [v.bound.type for v in variables]:
            break
        variables = settled
    else:
        graphs, _ = _loop_graphs(b, names, variables, goes_on, one_pass)
    return b.control("while_loop", len(names), graphs, loop_vars=initial)


def _loop_graphs(
    b: Builder,
    names: Sequence[str],
    variables: Sequence[Blob],
    goes_on: Callable[[], Blob],
    one_pass: Callable[[], None],
) -> tuple[list[Graph], list[Blob]]:
    """The graphs of a loop with variables of the given types, and what the variables are after a pass."""
    after: list[Blob] = []

    def test(given: Sequence[Blob]) -> Sequence[Blob]:
        b.scope.update(zip(names, given, strict=True))
        return [goes_on()]

    def run(given: Sequence[Blob]) -> Sequence[Blob]:
        b.scope.update(zip(names, given, strict=True))
        one_pass()
        after.extend(b.tensor(b.scope[name]) for name in names)
        return after

    return [b.block("cond", variables, test), b.block("body", variables, run)], after


def _joined(before: Blob, after: Blob, opens: bool) -> Blob:
    """A variable of a type that both are of; if `opens`, one with no known dimension."""
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
