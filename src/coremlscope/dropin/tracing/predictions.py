"""Records predictions and what happens inside them, in as little time as possible.

A prediction follows milliseconds of other work, so that everything that recording touches comes from slow
memory: each attribute and each call counts. Until the outermost call ends, calls inside it are only noted;
texts are made once for each combination of names, dtypes, shapes and lines, and found by keys that take no
time to compute. Long runs are the exception: what is noted is written before and after them, so that a killed
program loses nothing older.
"""

from __future__ import annotations

import asyncio
import functools
import sys
import time
from operator import is_not
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

from numpy import ndarray

from coremlscope.dropin.tracing.call import NUMBER
from coremlscope.dropin.tracing.threads import Threads, ThreadState, current_task
from coremlscope.dropin.tracing.values import bytes_of, describe_value
from coremlscope.results.events import (
    COPIED,
    FAILED,
    KIND_CODES,
    NESTED,
    NOT_CONTIGUOUS,
    SHARES_BASE,
)

if TYPE_CHECKING:
    from coremlscope.dropin.tracing.points import Point
    from coremlscope.dropin.tracing.profiled import SessionProfiles
    from coremlscope.dropin.tracing.ring import Ring
    from coremlscope.model.ir import Array, Feature

_MOST_NAMES = 4
#: Texts that are found by their keys; beyond that they are made again.
_MOST_KEYS = 1 << 14
#: After a run that takes longer, in nanoseconds, what is noted is written at once.
_SLOW_NS = 20_000_000
_CHECK, _INPUT, _OUTPUT = (KIND_CODES[name] for name in ("check inputs", "convert input", "convert output"))


class PredictionRecorder(Protocol):
    """Who records.

    Attributes:
        ring: The ring of this process; None while nothing is recorded.
        threads: What each thread is doing.
        profiles: Profiles sessions; None if operations are not recorded.
    """

    ring: Ring | None
    threads: Threads
    profiles: SessionProfiles | None

    def note_site(self, ring: Ring, thread: ThreadState, frame: FrameType) -> None:
        """Notes the innermost line that belongs to the program itself."""


def _recorded_prediction(recorder: PredictionRecorder, original: Any, point: Point) -> Any:
    """Returns a function that predicts by another one and records that.

    Inside another activity the call is a part of it, if the point has a kind for that, and is otherwise left
    out.
    """
    threads, clock, getframe = recorder.threads, time.perf_counter_ns, sys._getframe
    get_loop, profiles = asyncio._get_running_loop, recorder.profiles
    kind, nested, is_part = point.code, point.nested_code, bool(point.kind_when_nested)
    at, name = point.data

    @functools.wraps(original)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        ring = recorder.ring
        if ring is None:
            return original(*args, **kwargs)
        thread = threads.state
        if thread.depth:
            if is_part:
                return _run_part(ring, thread, nested, original, args, kwargs)
            return original(*args, **kwargs)
        entered = clock()
        if thread.ring is not ring:
            thread.enter_ring(ring)
        frame = getframe(1)
        if frame.f_code is not thread.code or frame.f_lasti != thread.instruction:
            recorder.note_site(ring, thread, frame)
        thread.task, flags = 0, thread.own_flags
        if get_loop() is not None:
            flags |= thread.loop_flags
            thread.task = current_task(ring)
        detail, size, own, address = _note_inputs(ring, args[at] if len(args) > at else kwargs.get(name))
        thread.flags, thread.depth = flags, 1
        flags |= own
        start = clock()
        try:
            return original(*args, **kwargs)
        except BaseException:
            flags |= FAILED
            raise
        finally:
            end = clock()
            thread.depth = 0
            if ring is recorder.ring:
                model = getattr(args[0], NUMBER, 0)
                thread.parts.append((start, end - start, size, address, detail, model, kind, flags))
                ring.write(thread.parts, thread.number, thread.task, thread.site)
                thread.parts.clear()
                if profiles is not None:
                    profiles.settle()
            ring.overhead += start - entered + clock() - end

    return recorded


def _run_part(
    ring: Ring, thread: ThreadState, kind: int, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Runs an engine inside an activity."""
    is_slow, flags = thread.is_slow, thread.flags | NESTED
    if is_slow:
        thread.write_parts(ring)
    start = time.perf_counter_ns()
    try:
        return original(*args, **kwargs)
    except BaseException:
        flags |= FAILED
        raise
    finally:
        duration = time.perf_counter_ns() - start
        thread.parts.append((start, duration, 0, 0, 0, 0, kind, flags))
        if is_slow:
            thread.write_parts(ring)
        thread.is_slow = duration > _SLOW_NS


def _note_inputs(ring: Ring, data: Any) -> tuple[int, int, int, int]:
    """Describes the inputs of a prediction: a dictionary, or a list of dictionaries.

    Returns:
        The number of the text, the bytes of all inputs, flags, and the address of the first input that is a
        part of a larger array.
    """
    key: list[Any] = [0]
    address = 0
    try:
        if data.__class__ is list:
            key[0] = len(data)
            data = data[0]
        for name, value in data.items():
            if value.__class__ is ndarray:
                key += (name, value.dtype, value.shape, value.strides)
                base = value.base
                if base is not None and not address and getattr(base, "nbytes", 0) > value.nbytes:
                    address = value.__array_interface__["data"][0]
            else:
                key += (name, describe_value(value), bytes_of(value))
        found = tuple(key)
        noted = ring.details.get(found)
        if noted is None:
            noted = _keep(ring, found, _describe_inputs(ring, data, key[0]))
    except Exception:  # A program must not fail because an argument is odd.
        return 0, 0, 0, 0
    number, size, flags = noted
    return number, size, flags | SHARES_BASE if address else flags, address


def _describe_inputs(ring: Ring, data: dict[str, Any], batch: int) -> tuple[int, int, int]:
    texts = [f"{name} {describe_value(value)}" for name, value in list(data.items())[:_MOST_NAMES]]
    if len(data) > _MOST_NAMES:
        texts.append(f"and {len(data) - _MOST_NAMES} more")
    strided = any(isinstance(value, ndarray) and not value.flags.c_contiguous for value in data.values())
    before = f"batch of {batch}; " if batch else ""
    number = ring.number(f"detail {before}{', '.join(texts)}")
    return number, sum(map(bytes_of, data.values())), NOT_CONTIGUOUS if strided else 0


def _keep(ring: Ring, key: Any, noted: tuple[int, int, int], *owners: Any) -> tuple[int, int, int]:
    if len(ring.details) < _MOST_KEYS:
        ring.details[key] = noted
        ring.kept += owners  # The key has their addresses.
    return noted


def _recorded_checks(recorder: PredictionRecorder, original: Any, _: Point) -> Any:
    """Returns coremltools' function that gets predictions, which also records its checks and conversions."""
    threads, clock = recorder.threads, time.perf_counter_ns

    @functools.wraps(original)
    def recorded(proxy: Any, preprocess: Any, data: Any, state: Any) -> Any:
        ring, thread = recorder.ring, threads.state
        if ring is None or not thread.depth:
            return original(proxy, preprocess, data, state)
        for values in data if data.__class__ is list else (data,):
            before = tuple(values.values())
            start = clock()
            preprocess(values)
            end = clock()
            if True in map(is_not, before, values.values()):
                _note_changes(ring, thread, start, end, before, values)
            else:
                thread.parts.append((start, end - start, 0, 0, 0, 0, _CHECK, thread.flags | NESTED))
        return original(proxy, _nothing, data, state)

    return recorded


def _nothing(_: Any) -> None:
    """Stands for what is done already."""


def _note_changes(
    ring: Ring, thread: ThreadState, start: int, end: int, before: tuple[Any, ...], values: dict[str, Any]
) -> None:
    """Notes what coremltools converted before Core ML gets it."""
    pairs = [(name, old, new) for old, (name, new) in zip(before, values.items(), strict=True)]
    changed = [pair for pair in pairs if pair[1] is not pair[2]]
    texts = [f"{name}: {describe_value(old)} → {describe_value(new)}" for name, old, new in changed]
    detail = ring.number(f"detail {', '.join(texts[:_MOST_NAMES])}, by coremltools")
    size = sum(bytes_of(new) for _, _, new in changed)
    flags = thread.flags | NESTED | COPIED
    thread.parts.append((start, end - start, size, 0, detail, 0, _INPUT, flags))


class Conversions:
    """Records the conversions inside predictions; a `features.ConversionObserver`."""

    def __init__(self, recorder: PredictionRecorder) -> None:
        self._recorder = recorder
        self._threads = recorder.threads

    def input_converted(self, feature: Feature, value: Any, tensor: Array, start: int) -> int:
        """Notes a converted input, and returns when the next conversion begins."""
        end = time.perf_counter_ns()
        thread, ring = self._threads.state, self._recorder.ring
        if ring is None or not thread.depth:
            return end
        if value.__class__ is ndarray:
            key: Any = (id(feature), value.dtype, value.shape)
        else:
            key = (id(feature), describe_value(value))
        noted = ring.details.get(key)
        if noted is None:
            text = f"detail {_conversion(feature, value)}"
            noted = _keep(ring, key, (ring.number(text), 0, 0), feature)
        flags = thread.flags | NESTED | (COPIED if _is_copy(value, tensor) else 0)
        thread.parts.append((start, end - start, tensor.nbytes, 0, noted[0], 0, _INPUT, flags))
        return time.perf_counter_ns()

    def output_converted(self, feature: Feature, tensor: Array, value: Any, start: int) -> int:
        """Notes a converted output, and returns when the next conversion begins."""
        end = time.perf_counter_ns()
        thread, ring = self._threads.state, self._recorder.ring
        if ring is None or not thread.depth:
            return end
        key = (id(feature), tensor.dtype, tensor.shape)
        noted = ring.details.get(key)
        if noted is None:
            text = f"detail {feature.name}: {describe_value(tensor)} → {describe_value(value)}"
            noted = _keep(ring, key, (ring.number(text), 0, 0), feature)
        flags = thread.flags | NESTED | (COPIED if _is_copy(tensor, value) else 0)
        thread.parts.append((start, end - start, tensor.nbytes, 0, noted[0], 0, _OUTPUT, flags))
        return time.perf_counter_ns()


def _conversion(feature: Feature, value: Any) -> str:
    """Describes the conversion of a value to the declared type of its input."""
    dtype = getattr(feature.type, "dtype", None)
    target = (
        type(feature.type).__name__.removesuffix("Feature").lower()
        if dtype is None
        else getattr(dtype, "numpy", dtype)
    )
    return f"{feature.name}: {describe_value(value)} → {target}"


def _is_copy(source: Any, result: Any) -> bool:
    """Returns True if the result of a conversion lies in other memory than its source."""
    if source is result:
        return False
    base = getattr(result, "base", None)
    return base is None or not (base is source or base is getattr(source, "base", None))


#: Wrappers of the functions of points, by `Point.wrapper`.
WRAPPERS = {"prediction": _recorded_prediction, "checks": _recorded_checks}
