"""The encoders of AirRunner/laya-apple with linear layers and attention operations.

Their structure is published (`laya_apple/conversion/torch_reference.py`), and so is the number of operations
of each type in the converted programs, which these have: a ModernBERT with rotary positions and gated layers,
two layers without either, a score for each of 32 marked positions, and a decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.plan.builder import Builder, shape_of
from coremlscope.model.ir import DType, Model, Value, constant
from coremlscope.planning.patterns.rule import int32, weight

__all__ = ["BASE", "LARGE", "Shape", "transformer"]

_MARKS = 32


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The sizes of an encoder.

    Attributes:
        layers: Layers with rotary positions and gates.
        width: Channels.
        heads: Heads of 64 channels.
        gated: Channels of a gated layer.
        plain: Channels of the hidden layer of the two layers at the end.
        words: Rows of the table of words.
    """

    layers: int
    width: int
    heads: int
    gated: int
    plain: int
    words: int


LARGE = Shape(layers=28, width=1024, heads=16, gated=2624, plain=4096, words=50_368)
BASE = Shape(layers=22, width=768, heads=12, gated=1152, plain=3072, words=256_000)


def transformer(shape: Shape, length: int) -> Model:
    """Returns an encoder with linear layers.

    Args:
        shape: Its sizes.
        length: Number of positions.
    """
    builder = Builder()
    names = {
        "words": int32(1, length),
        "mask": int32(1, length),
        "marks": int32(1, _MARKS),
        "marked": int32(1, _MARKS),
        "kind": int32(1),
    }
    given = {name: Value(name, type_) for name, type_ in names.items()}
    x = _norm(builder, _looked_up(builder, shape, given["words"]))
    whole, window = _masks(builder, given["mask"], length)
    for index in range(shape.layers):
        inner = _norm(builder, x) if index else x
        attended = _attention(builder, inner, window if index % 3 else whole, rotary=True)
        x = builder.one("add", x=x, y=attended)
        gate, value = _split(builder, builder.linear(_norm(builder, x), 2 * shape.gated))
        gated = builder.one("mul", x=builder.one("gelu", x=gate, mode="EXACT"), y=value)
        x = builder.one("add", x=x, y=builder.linear(gated, shape.width))
    x = _norm(builder, x)
    kind = builder.one("cast", x=given["kind"], dtype="uint16")
    kind = _gathered(builder, weight(3, shape.width), kind)
    x = builder.one("add", x=x, y=builder.one("expand_dims", x=kind, axes=[1]))
    for _ in range(2):
        x = builder.one("add", x=x, y=_attention(builder, _norm(builder, x, "beta"), whole, rotary=False))
        hidden = builder.one("relu", x=builder.linear(_norm(builder, x, "beta"), shape.plain))
        x = builder.one("add", x=x, y=builder.linear(hidden, shape.width))
    return builder.model(tuple(given.values()), *_decided(builder, x, given))


def _looked_up(builder: Builder, shape: Shape, words: Value) -> Value:
    """Rows of a table; negative indices count from its end."""
    known = builder.one("greater_equal", x=words, y=0)
    moved = builder.one("add", x=words, y=shape.words)
    chosen = builder.one("select", cond=known, a=words, b=moved)
    return _gathered(builder, weight(shape.words, shape.width), chosen)


def _gathered(builder: Builder, table: object, indices: Value) -> Value:
    arguments = {"axis": 0, "batch_dims": 0, "validate_indices": False}
    return builder.one("gather", x=table, indices=indices, **arguments)


def _masks(builder: Builder, mask: Value, length: int) -> tuple[Value, Value]:
    """The mask of all positions and that of a window."""
    valid = builder.one("expand_dims", x=builder.one("cast", x=mask, dtype="bool"), axes=[1])
    whole = builder.one("expand_dims", x=valid, axes=[1])
    absent = builder.one("logical_not", x=builder.one("expand_dims", x=valid, axes=[3]))
    near = builder.one("logical_or", x=weight(1, 1, length, length, dtype=DType.BOOL), y=absent)
    return whole, builder.one("logical_and", x=near, y=whole)


def _norm(builder: Builder, x: Value, *also: str) -> Value:
    vectors = {name: weight(shape_of(x)[-1]) for name in ("gamma", *also)}
    return builder.one("layer_norm", x=x, axes=[-1], epsilon=constant(1e-5, DType.FP16), **vectors)


def _split(builder: Builder, x: Value) -> tuple[Value, ...]:
    half = shape_of(x)[-1] // 2
    return builder.add("split", 2, x=x, split_sizes=[half, half], axis=-1)


def _attention(builder: Builder, x: Value, mask: Value, rotary: bool) -> Value:
    """Attention of heads of 64 channels."""
    _, length, width = shape_of(x)
    heads = width // 64
    joined = builder.one("reshape", x=builder.linear(x, 3 * width), shape=[1, length, 3, heads, 64])
    parts = [_sliced(builder, joined, [0, 0, index, 0, 0], squeezed=2) for index in range(3)]
    if rotary:
        parts[:2] = [_rotated(builder, part) for part in parts[:2]]
    turned = [builder.one("transpose", x=part, perm=[0, 2, 1, 3]) for part in reversed(parts)]
    arguments = dict(zip(("value", "key", "query"), turned, strict=True))
    attended = builder.one("scaled_dot_product_attention", **arguments, attn_mask=mask)
    attended = builder.one("transpose", x=attended, perm=[0, 2, 1, 3])
    return builder.linear(builder.one("reshape", x=attended, shape=[1, length, width]), width)


def _sliced(builder: Builder, x: Value, begin: list[int], squeezed: int) -> Value:
    """One place of an axis, as coremltools writes it."""
    shape = shape_of(x)
    end = [begin[axis] + 1 if axis == squeezed else size for axis, size in enumerate(shape)]
    masks = {
        "end_mask": [axis != squeezed for axis in range(len(shape))],
        "squeeze_mask": [axis == squeezed for axis in range(len(shape))],
    }
    return builder.one("slice_by_index", x=x, begin=begin, end=end, **masks)


def _rotated(builder: Builder, x: Value) -> Value:
    left, right = _split(builder, x)
    cosine, sine = weight(1, shape_of(x)[1], 1, 32), weight(1, shape_of(x)[1], 1, 32)

    def product(half: Value, table: object) -> Value:
        return builder.one("mul", x=half, y=table)

    halves = (
        builder.one("sub", x=product(left, cosine), y=product(right, sine)),
        builder.one("add", x=product(right, cosine), y=product(left, sine)),
    )
    return builder.one("concat", values=halves, axis=-1, interleave=False)


def _decided(builder: Builder, x: Value, given: Mapping[str, Value]) -> tuple[Value, Value]:
    """A score for each marked position, and a decision from the first position and their distribution."""
    width = shape_of(x)[-1]
    marks = builder.one("expand_dims", x=given["marks"], axes=[2])
    marks = builder.one("cast", x=builder.one("tile", x=marks, reps=[1, 1, width]), dtype="uint16")
    chosen = builder.one("gather_along_axis", x=x, indices=marks, axis=1, validate_indices=False)
    hidden = builder.one("gelu", x=builder.linear(_norm(builder, chosen, "beta"), width), mode="EXACT")
    scores = builder.one("squeeze", x=builder.linear(hidden, 1), axes=[2])
    least = builder.one("fill_like", ref_tensor=scores, value=constant(-1e4, DType.FP16))
    marked = builder.one("cast", x=given["marked"], dtype="bool")
    scores = builder.one("select", cond=marked, a=scores, b=least)
    features = _features(builder, builder.one("softmax", x=scores, axis=-1), marked)
    first = _sliced(builder, x, [0, 0, 0], squeezed=1)
    joined = builder.one("concat", values=(first, features), axis=-1, interleave=False)
    hidden = builder.one("gelu", x=builder.linear(joined, 256), mode="EXACT")
    decision = builder.linear(hidden, 2)
    return builder.one("cast", x=scores, dtype="fp32"), builder.one("cast", x=decision, dtype="fp32")


def _features(builder: Builder, weights: Value, marked: Value) -> Value:
    """The largest weight, its distance to the next, the entropy and the number of marks."""
    half = DType.FP16
    sum_of = {"axes": [-1], "keep_dims": False}
    count = builder.one("reduce_sum", x=builder.one("cast", x=marked, dtype="fp16"), **sum_of)
    count = builder.one("clip", x=count, alpha=constant(2.0, half), beta=constant(6e4, half))
    clipped = builder.one("clip", x=weights, alpha=constant(1e-9, half), beta=constant(6e4, half))
    logs = builder.one("log", x=clipped, epsilon=1e-45)
    entropy = builder.one("reduce_sum", x=builder.one("mul", x=weights, y=logs), **sum_of)
    entropy = builder.one("mul", x=entropy, y=constant(-1.0, half))
    entropy = builder.one("real_div", x=entropy, y=builder.one("log", x=count, epsilon=1e-45))
    top = {"k": 2, "axis": -1, "ascending": False, "sort": True, "return_indices": True}
    best = builder.add("topk", 2, x=weights, **top, output_indices_dtype="uint16")[0]
    largest, next_one = (_sliced(builder, best, [0, place], squeezed=1) for place in range(2))
    distance = builder.one("sub", x=largest, y=next_one)
    count = builder.one("mul", x=count, y=constant(1 / 255, half))
    return builder.one("stack", values=(largest, distance, entropy, count), axis=1)
