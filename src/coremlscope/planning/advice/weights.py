"""Findings on weights: stored twice, or stored wider than their content needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from coremlscope.base.errors import CoremlscopeError
from coremlscope.base.units import format_bytes, shown
from coremlscope.formats.weights import BlobData
from coremlscope.model.ir import Array, Constant, DType, TensorType
from coremlscope.planning.advice.rule import AdviceRule, Found, FunctionView, plural

#: Smaller weights take no space that matters; coremltools' default for compression.
_LEAST_ELEMENTS = 2048
#: Elements that are compared before a whole weight is read, and the bytes that are read of all weights.
_SAMPLE, _MOST_BYTES = 4096, 1 << 29
_MOST_VALUES = 256
#: The sizes of tables that coremltools writes, by the bits of an index.
_TABLES = (1, 2, 4, 6, 8)


#: A weight: the name of its operation, its content, and where it is stored.
_Weight = tuple[str, Constant, BlobData]


def _stored(function: FunctionView) -> Iterator[_Weight]:
    """Yields the weights of a function that are in a file, each place in a file once."""
    seen: set[tuple[int, int]] = set()
    for op in function.bound.function.graph.walk():
        given = (argument for several in op.inputs.values() for argument in several)
        for constant in (*op.attributes.values(), *(one for one in given if isinstance(one, Constant))):
            data = constant.data
            if not isinstance(data, BlobData) or not data.is_available:
                continue
            place = (id(data.storage), data.offset)
            if (data.type.elements or 0) >= _LEAST_ELEMENTS and place not in seen:
                seen.add(place)
                yield op.name, constant, data


def _repeated(function: FunctionView) -> Found | None:
    alike: dict[object, list[_Weight]] = defaultdict(list)
    for name, constant, data in _stored(function):
        alike[data.type].append((name, constant, data))
    saved = 0
    names: list[str] = []
    left = _MOST_BYTES
    for group in alike.values():
        for same in _same(group, left):
            nbytes = same[0][2].stored_bytes
            saved += nbytes * (len(same) - 1)
            names += [name for name, *_ in same[1:]]
        left -= sum(data.stored_bytes for *_, data in group) if len(group) > 1 else 0
    if not names:
        return None
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    what = "weight is" if len(names) == 1 else "weights are"
    return Found(
        text=f"{len(names)} {what} stored again, with the content of another one:"
        f" {', '.join(map(shown, names[:3]))}{more}, {format_bytes(saved)}.",
        saved_bytes=saved,
    )


def _same(group: list[_Weight], most_bytes: int) -> Iterator[list[_Weight]]:
    """Yields the weights of one type that have the same content, where there are several."""
    by_start: dict[bytes, list[_Weight]] = defaultdict(list)
    if len(group) > 1:
        for one in group:
            try:
                by_start[one[1].numpy().reshape(-1)[:_SAMPLE].tobytes()].append(one)
            except CoremlscopeError:
                continue  # a damaged weight is reported where it is used
    for several in by_start.values():
        if len(several) < 2 or sum(data.stored_bytes for *_, data in several) > most_bytes:
            continue
        by_content: dict[bytes, list[_Weight]] = defaultdict(list)
        for one in several:
            by_content[_digest(one[1].numpy())].append(one)
        yield from (same for same in by_content.values() if len(same) > 1)


def _digest(array: Array) -> bytes:
    import hashlib

    return hashlib.blake2b(np.ascontiguousarray(array).view(np.uint8).reshape(-1).data).digest()


def _few_values(function: FunctionView) -> Found | None:
    found: list[tuple[str, int]] = []
    saved, left = 0, _MOST_BYTES
    for name, constant, data in _stored(function):
        type_ = constant.type
        assert isinstance(type_, TensorType)
        if type_.dtype not in (DType.FP16, DType.FP32) or data.stored_bytes > left:
            continue
        if type_.shape is None or len(type_.shape) < 2:
            continue  # coremltools compresses no vectors (need_compress_const)
        try:
            values = constant.numpy().reshape(-1)
        except CoremlscopeError:
            continue  # a damaged weight is reported where it is used
        first = np.sort(values[:_SAMPLE])  # `np.unique` takes a while to import
        if np.count_nonzero(first[1:] != first[:-1]) >= _MOST_VALUES:
            continue
        left -= data.stored_bytes
        count = len(np.unique(values))
        bits = next((bits for bits in _TABLES if count <= 1 << bits), None)
        if bits is None:
            continue
        table = (1 << bits) * type_.dtype.bits // 8
        smaller = data.stored_bytes - (values.size * bits + 7) // 8 - table
        if smaller > 0:
            saved += smaller
            found.append((name, count))
    if not found:
        return None
    shown_ones = ", ".join(f"{shown(name)} ({plural(count, 'value')})" for name, count in found[:3])
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    what = "weight holds" if len(found) == 1 else "weights hold"
    return Found(
        text=f"{len(found)} {what} at most {_MOST_VALUES} different values, and could be stored as indices"
        f" into a table without any loss: {shown_ones}{more}, {format_bytes(saved)} less.",
        saved_bytes=saved,
    )


RULES: tuple[AdviceRule, ...] = (
    AdviceRule(
        id="repeated-weights",
        doc="Weights in the file that have the content of another one, for instance of layers that share"
        " their weights.",
        find=_repeated,
        fix="store equal weights once, for instance by coremltools' pass const_deduplication",
        source="apple/coremltools: graph pass const_deduplication",
        confidence="static analysis",
        transform="tidy",
    ),
    AdviceRule(
        id="few-values",
        doc="float16 and float32 weights that hold few different values: a table of them and an index for"
        " each element is the same weight in fewer bytes, which the Neural Engine reads packed. Training with"
        " quantization leaves such weights, as does a conversion that unpacked them.",
        find=_few_values,
        fix="palettize weights of few values with mode='unique', which changes none of them",
        source="apple/coremltools: guide to compression",
        confidence="static analysis",
        transform="palettize-unique",
    ),
)
