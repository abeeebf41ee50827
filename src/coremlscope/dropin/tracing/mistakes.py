"""Mistakes that a recording shows: figures, the line to change, the fix, and what it would save.

`CHECKS` lists the functions that look for them. The thresholds leave out what costs little.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise

import msgspec
import numpy as np
from msgspec.structs import replace

from coremlscope.base.units import format_bytes, format_duration
from coremlscope.results.events import (
    COPIED,
    FAILED,
    IN_EVENT_LOOP,
    KIND_CODES,
    NOT_CONTIGUOUS,
    ON_MAIN_THREAD,
    SHARES_BASE,
)
from coremlscope.results.trace import Events, Mistake, Trace

__all__ = ["CHECKS", "find_mistakes"]

#: Fewer calls may be a program's start.
_FEWEST_CALLS = 3
#: Data conversions that take less than this share of the predictions' time are left out.
_LEAST_SHARE = 0.05
#: Outputs smaller than this are cheap to allocate.
_LARGE_OUTPUT = 1 << 20
_FEWEST_OUTPUTS = 10
#: A first prediction is slow if it takes this many times the median of the others, and this much longer.
_SLOW_FIRST, _SLOW_FIRST_NS = 5.0, 10_000_000
#: Predictions follow each other at once if the gap is below this share of their duration.
_SMALL_GAP = 0.5
_FEWEST_IN_ROW = 8


class _View(msgspec.Struct, frozen=True, dict=True):
    """A trace, with the selections that several checks need."""

    trace: Trace

    @cached_property
    def loads(self) -> Events:
        return self._succeeded("load")

    @cached_property
    def predictions(self) -> Events:
        return self._succeeded("predict")

    def _succeeded(self, kind: str) -> Events:
        events = self.trace.events.of(kind)
        return events.where((events.flags & FAILED) == 0)

    @cached_property
    def load_of(self) -> dict[int, tuple[int, int, int, int]]:
        """Of each loaded model: the site of its load, the start, the duration, the flags."""
        e = self.loads
        columns = (e.model, e.site, e.start_ns, e.duration_ns, e.flags)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return {
            model: (site, start, duration, flags)
            for model, site, start, duration, flags in rows
            if model >= 0
        }

    @cached_property
    def calls(self) -> np.ndarray:
        """The number of predictions of each loaded model."""
        used = self.predictions.model[self.predictions.model >= 0]
        return np.bincount(used, minlength=len(self.trace.models))

    @cached_property
    def same(self) -> dict[tuple[int, str, str, str], list[int]]:
        """Loads of the same model with the same settings in one process, in the order of loading."""
        groups: dict[tuple[int, str, str, str], list[int]] = defaultdict(list)
        for index, model in enumerate(self.trace.models):
            if model.key and index in self.load_of:
                groups[model.process, model.key, model.function, model.compute_units].append(index)
        return groups

    def by_model(self, events: Events) -> Iterator[tuple[int, Events]]:
        """The events of each model."""
        for index in np.unique(events.model[events.model >= 0]).tolist():
            yield index, events.where(events.model == index)

    def by_use(self, events: Events) -> Iterator[tuple[int, int, Events]]:
        """The events of each model at each site: the same model loaded twice counts as one."""
        first = {index: group[0] for group in self.same.values() for index in group}
        models = np.array([first.get(m, m) for m in range(len(self.trace.models))] or [0], np.int64)
        known = events.where(events.model >= 0)
        owners = models[known.model] if len(known) else known.model
        for model, site in sorted(set(zip(owners.tolist(), known.site.tolist(), strict=True))):
            yield model, site, known.where((owners == model) & (known.site == site))

    def inside(self, outer: Events, *kinds: str) -> Events:
        """The events of some kinds that lie inside others, on the same thread."""
        inner = self.trace.events.of(*kinds)
        keep = np.zeros(len(inner), bool)
        lanes = set(zip(outer.process.tolist(), outer.thread.tolist(), strict=True))
        for process, thread in lanes:
            calls = outer.where((outer.process == process) & (outer.thread == thread))
            here = (inner.process == process) & (inner.thread == thread)
            at = np.searchsorted(calls.start_ns, inner.start_ns, "right") - 1
            keep |= here & (at >= 0) & (inner.start_ns < calls.end_ns[np.maximum(at, 0)])
        return inner.where(keep)


def find_mistakes(trace: Trace) -> Trace:
    """Returns the trace with its mistakes, the costliest first."""
    view = _View(trace)
    found = [mistake for check in CHECKS for mistake in check(view)]
    found.sort(key=lambda m: (m.severity != "warning", -(m.gain_s or 0.0)))
    return replace(trace, mistakes=tuple(found))


def _ms(nanoseconds: float) -> str:
    return format_duration(nanoseconds / 1e9)


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def _median(values: Sequence[float] | np.ndarray) -> float:
    return float(np.median(values)) if len(values) else 0.0


def _reloaded(view: _View) -> Iterator[Mistake]:
    for group in view.same.values():
        by_site: dict[int, list[int]] = defaultdict(list)
        for index in group:
            by_site[view.load_of[index][0]].append(index)
        for site, indices in by_site.items():
            if len(indices) < 2:
                continue
            model = view.trace.models[indices[0]]
            durations = [view.load_of[index][2] for index in indices]
            calls = int(view.calls[indices].sum())
            in_loop = len(indices) >= _FEWEST_CALLS
            yield Mistake(
                id="load-in-loop" if in_loop else "model-reloaded",
                title=f"{model.name} is loaded {_times(len(indices))} by one line",
                evidence=f"{len(indices)} loads take {_ms(sum(durations))},"
                f" the median {_ms(_median(durations))}, for {calls} predictions.",
                fix="Load the model once, before the loop or at the start, and keep the object.",
                site=site,
                model=indices[0],
                events=len(indices),
                gain_s=sum(durations[1:]) / 1e9,
            )
        if len(by_site) > 1 and not _overlap(view, [indices[0] for indices in by_site.values()]):
            first, *later = [indices[0] for indices in by_site.values()]
            model = view.trace.models[first]
            durations = [view.load_of[index][2] for index in later]
            yield Mistake(
                id="model-reloaded",
                title=f"{model.name} is loaded again",
                evidence=f"{len(by_site)} lines load it; all but the first take {_ms(sum(durations))}.",
                fix="Load the model once and pass the object on.",
                site=view.load_of[later[0]][0],
                model=later[0],
                events=len(later),
                gain_s=sum(durations) / 1e9,
            )


def _end(view: _View, model: int) -> int:
    released = view.trace.models[model].unloaded_at_ns
    return view.trace.duration_ns if released is None else released


def _overlap(view: _View, models: Sequence[int]) -> bool:
    """Returns True if two of the models are in memory at once."""
    spans = sorted((view.trace.models[m].loaded_at_ns, _end(view, m)) for m in models)
    return any(start < before for (_, before), (start, _) in pairwise(spans))


def _copies(view: _View) -> Iterator[Mistake]:
    for group in view.same.values():
        sites = [view.load_of[index][0] for index in group]
        firsts = [index for position, index in enumerate(group) if sites[position] not in sites[:position]]
        if len(firsts) < 2 or not _overlap(view, firsts):
            continue
        model = view.trace.models[firsts[0]]
        durations = [view.load_of[index][2] for index in firsts[1:]]
        yield Mistake(
            id="two-copies",
            title=f"{model.name} is in memory {_times(len(firsts))}",
            evidence=f"{len(firsts)} lines load it, and the objects live at the same time; loading the others"
            f" took {_ms(sum(durations))}.",
            fix="Share one loaded model: predictions from several threads are safe.",
            site=view.load_of[firsts[1]][0],
            model=firsts[1],
            events=len(firsts),
            gain_s=sum(durations) / 1e9,
        )


def _blocking_loads(view: _View) -> Iterator[Mistake]:
    events = view.loads
    frame_ns = 1e9 / view.trace.fps if view.trace.fps else None
    flags = events.flags
    blocking = (flags & IN_EVENT_LOOP) > 0
    if frame_ns is not None:
        first = int(view.predictions.start_ns.min()) if len(view.predictions) else 0
        late = (events.start_ns > first) & (events.duration_ns > frame_ns)
        blocking |= ((flags & ON_MAIN_THREAD) > 0) & late
    chosen = events.where(blocking)
    for site in np.unique(chosen.site).tolist():
        here = chosen.where(chosen.site == site)
        in_loop = bool((here.flags & IN_EVENT_LOOP).any())
        where = "the asyncio loop" if in_loop else "the main thread"
        model = int(here.model[0])
        yield Mistake(
            id="load-on-main-thread",
            title=f"loading blocks {where}",
            evidence=f"{_times(len(here)).capitalize()}, {where} stands still while a model is loaded:"
            f" {_ms(int(here.duration_ns.sum()))}.",
            fix="Load in a thread: `await asyncio.to_thread(MLModel, path)`, or before the loop begins."
            if in_loop
            else "Load on another thread, or before the first frame.",
            site=site,
            model=model,
            events=len(here),
            gain_s=float(here.duration_ns.sum()) / 1e9,
        )


def _loading_dominates(view: _View) -> Iterator[Mistake]:
    for group in view.same.values():
        loading = sum(view.load_of[index][2] for index in group)
        calls = view.predictions.where(np.isin(view.predictions.model, group))
        predicting = int(calls.duration_ns.sum())
        if not len(calls) or len(calls) > 2 * len(group) or loading <= predicting:
            continue
        model = view.trace.models[group[0]]
        yield Mistake(
            id="load-above-predict",
            severity="warning" if len(group) > 1 else "info",
            title=f"{model.name} takes longer to load than to predict",
            evidence=f"Loading takes {_ms(loading)}, {len(calls)} predictions {_ms(predicting)}.",
            fix="Keep one process or object for many predictions, or load a compiled model.",
            site=view.load_of[group[0]][0],
            model=group[0],
            events=len(group),
        )


def _serial(view: _View) -> Iterator[Mistake]:
    """Predictions one after another whose inputs are parts of one array: they could have been one batch."""
    for model, site, events in view.by_use(view.predictions):
        for process in np.unique(events.process).tolist():
            calls = events.where((events.process == process) & ((events.flags & SHARES_BASE) > 0))
            if len(calls) < _FEWEST_IN_ROW or len(np.unique(calls.thread)) > 1:
                continue
            steps = np.diff(calls.address)
            gaps = np.diff(calls.start_ns) - calls.duration_ns[:-1]
            regular = (steps == calls.bytes[:-1]) & (gaps < _SMALL_GAP * calls.duration_ns[:-1])
            run = _longest_run(regular) + 1
            if run < _FEWEST_IN_ROW:
                continue
            yield Mistake(
                id="serial-predictions",
                title=f"{run} predictions in a row take parts of one array",
                evidence=f"Their inputs lie behind each other in memory, and together take"
                f" {_ms(int(calls.duration_ns.sum()))} (median {_ms(_median(calls.duration_ns))}).",
                fix="Pass a list of inputs to one `predict` call, give the model a batch dimension, or"
                " predict from several threads.",
                site=site,
                model=model,
                events=len(calls),
            )


def _longest_run(mask: np.ndarray) -> int:
    best = length = 0
    for value in mask.tolist():
        length = length + 1 if value else 0
        best = max(best, length)
    return best


def _wide_inputs(view: _View) -> Iterator[Mistake]:
    """float32 arrays for a model that takes, or at once converts to, fp16."""
    for model, site, events in view.by_use(view.predictions):
        facts = view.trace.models[model]
        halves = [f for f in facts.inputs if f.dtype == "float16"]
        wide = {"float32", "float64"} if halves else {"float64"}
        names = [f.name for f in (halves or [f for f in facts.inputs if f.dtype == "float32"])]
        given = _given_dtypes(view, events, names)
        chosen = sorted(name for name, dtypes in given.items() if dtypes & wide)
        if not chosen or len(events) < _FEWEST_CALLS:
            continue
        data = view.inside(events, "convert input")
        spent = int(data.duration_ns.sum())
        target = "float16" if halves else "float32"
        from_ = " and ".join(sorted(set().union(*(given[name] & wide for name in chosen))))
        yield Mistake(
            id="wide-inputs",
            title=f"{facts.name} takes {target}, but gets {from_}",
            evidence=f"{', '.join(chosen)}: {len(events)} predictions convert {from_} to {target};"
            f" conversions take {_ms(spent)}, {_share(spent, events)} of predicting.",
            fix=f"Make the arrays {target} where they are created"
            + (
                "; coremltools itself widens float16 arrays again, an app in Swift passes them as they are."
                if halves
                else "."
            ),
            site=site,
            model=model,
            events=len(events),
            gain_s=spent / 1e9,
        )


def _given_dtypes(view: _View, events: Events, names: Sequence[str]) -> dict[str, set[str]]:
    """The dtypes of the arrays that predictions got, by input: from their details."""
    found: dict[str, set[str]] = defaultdict(set)
    for index in np.unique(events.detail[events.detail >= 0]).tolist():
        for part in view.trace.details[index].split("; ")[-1].split(", "):
            name, _, text = part.partition(" ")
            if name in names and "[" in text:
                found[name].add(text.partition("[")[0])
    return found


def _share(spent: float, events: Events) -> str:
    total = float(events.duration_ns.sum())
    share = spent / total if total else 0.0
    return "less than 1 %" if share < 0.01 else f"{100 * share:.0f} %"


def _full_width_interface(view: _View) -> Iterator[Mistake]:
    """Models that compute in fp16 behind a float32 interface, where the conversions cost something."""
    for model, site, events in view.by_use(view.predictions):
        facts = view.trace.models[model]
        wide = [f.name for f in (*facts.inputs, *facts.outputs) if f.dtype == "float32"]
        if not facts.is_half or not wide or len(events) < _FEWEST_CALLS:
            continue
        data = view.inside(events, "convert input", "convert output")
        data = data.where((data.flags & COPIED) > 0)
        spent, size = int(data.duration_ns.sum()), int(data.bytes.sum()) // len(events)
        if spent < _LEAST_SHARE * events.duration_ns.sum() or size < _LARGE_OUTPUT:
            continue
        yield Mistake(
            id="float32-interface",
            title=f"{facts.name} computes in fp16 behind a float32 interface",
            evidence=f"{', '.join(wide)} are float32: {format_bytes(size)} per prediction are converted,"
            f" which takes {_ms(spent)}, {_share(spent, events)} of predicting.",
            fix="Convert the model with fp16 inputs and outputs, `ct.TensorType(dtype=np.float16)`.",
            site=site,
            model=model,
            events=len(events),
            gain_s=spent / 1e9,
        )


def _images(view: _View) -> Iterator[Mistake]:
    events = view.trace.events.of("resize image", "convert image")
    if not len(view.predictions):
        return
    for site in np.unique(events.site[events.site >= 0]).tolist():
        here = events.where(events.site == site)
        if len(here) < _FEWEST_CALLS:
            continue
        kinds = np.unique(here.kind).tolist()
        what = "resized" if KIND_CODES["resize image"] in kinds else "converted to another mode"
        detail = view.trace.details[int(here.detail[0])] if here.detail[0] >= 0 else ""
        spent = int(here.duration_ns.sum())
        yield Mistake(
            id="image-converted",
            title=f"images are {what} before predictions",
            evidence=f"{_times(len(here)).capitalize()} ({detail}), which takes {_ms(spent)}:"
            f" {_share(spent, view.predictions)} of the time of all predictions.",
            fix="Take pictures in the model's size and mode, or draft them while decoding (`Image.draft`); on"
            " Apple's devices Vision scales images on the GPU.",
            site=site,
            events=len(here),
            gain_s=spent / 1e9,
        )


def _allocated_outputs(view: _View) -> Iterator[Mistake]:
    for model, site, events in view.by_use(view.predictions):
        facts = view.trace.models[model]
        sizes = [_output_bytes(f.dtype, f.shape) for f in facts.outputs]
        if max(sizes, default=0) < _LARGE_OUTPUT or len(events) < _FEWEST_OUTPUTS:
            continue
        spent = int(view.inside(events, "convert output").duration_ns.sum())
        yield Mistake(
            id="outputs-allocated",
            title=f"{facts.name} allocates its outputs in every prediction",
            evidence=f"{format_bytes(sum(sizes))} for each of {len(events)} predictions;"
            f" copying them takes {_ms(spent)}, {_share(spent, events)} of predicting.",
            fix="Give the prediction memory to write to: `MLPredictionOptions.outputBackings` in an app, IO"
            " binding in ONNX Runtime; or let the model return less (a class map instead of scores, fp16).",
            site=site,
            model=model,
            events=len(events),
            gain_s=spent / 1e9,
        )


def _output_bytes(dtype: str, shape: Sequence[int]) -> int:
    if not dtype or not shape or min(shape) < 1:
        return 0
    return int(np.prod(shape)) * np.dtype(dtype).itemsize


def _layout(view: _View) -> Iterator[Mistake]:
    for model, site, events in view.by_use(view.predictions):
        odd = events.where((events.flags & NOT_CONTIGUOUS) > 0)
        if not len(odd):
            continue
        detail = view.trace.details[int(odd.detail[0])] if odd.detail[0] >= 0 else ""
        spent = int(view.inside(odd, "convert input").duration_ns.sum())
        yield Mistake(
            id="input-not-contiguous",
            title=f"inputs of {view.trace.models[model].name} are not contiguous",
            evidence=f"{len(odd)} of {len(events)} predictions get an array in another order than its memory"
            f" ({detail}), which is copied element by element: conversions take {_ms(spent)}.",
            fix="Create the array in the model's order; where that is not possible, copy it once with"
            " `np.ascontiguousarray`.",
            site=site,
            model=model,
            events=len(odd),
            gain_s=spent / 1e9,
        )


def _slow_first(view: _View) -> Iterator[Mistake]:
    for model, events in view.by_model(view.predictions):
        if len(events) < _FEWEST_CALLS + 2:
            continue
        first, usual = int(events.duration_ns[0]), _median(events.duration_ns[1:])
        if first < _SLOW_FIRST * usual or first - usual < _SLOW_FIRST_NS:
            continue
        prepared = view.inside(events.where(np.array([0])), "prepare engine")
        if not len(prepared) and view.trace.models[model].runtime != "Core ML":
            continue  # It was delayed by something else, such as a busy machine.
        why = f" {_ms(int(prepared.duration_ns.sum()))} of it prepare the engine." if len(prepared) else ""
        yield Mistake(
            id="slow-first-prediction",
            title=f"the first prediction with {view.trace.models[model].name} takes"
            f" {first / max(usual, 1):.0f} times as long as the others",
            evidence=f"It takes {_ms(first)}, the median of {len(events) - 1} others {_ms(usual)}.{why}",
            fix="Predict once with a dummy input after loading, before the user waits.",
            site=int(events.site[0]),
            model=model,
            events=1,
            gain_s=(first - usual) / 1e9,
        )


def _unused(view: _View) -> Iterator[Mistake]:
    users = {(m.process, m.key) for i, m in enumerate(view.trace.models) if view.calls[i]}
    for index, model in enumerate(view.trace.models):
        load = view.load_of.get(index)
        if load is None or (model.process, model.key) in users or view.calls[index]:
            continue
        if not view.trace.processes[model.process].ended:
            continue
        yield Mistake(
            id="model-unused",
            title=f"{model.name} is loaded and never used",
            evidence=f"Loading it took {_ms(load[2])}; no prediction followed.",
            fix="Load it when it is needed, or remove it.",
            site=load[0],
            model=index,
            events=1,
            gain_s=load[2] / 1e9,
        )


def _missed_frames(view: _View) -> Iterator[Mistake]:
    if view.trace.fps is None:
        return
    frame_ns = 1e9 / view.trace.fps
    for model, site, events in view.by_use(view.predictions):
        late = events.where(events.duration_ns > frame_ns)
        if len(late) and len(events) >= _FEWEST_CALLS:
            yield Mistake(
                id="frames-missed",
                title=f"{len(late)} of {len(events)} predictions miss a frame",
                evidence=f"At {view.trace.fps:g} frames per second a frame takes {_ms(frame_ns)}; the median"
                f" prediction with {view.trace.models[model].name} takes {_ms(_median(events.duration_ns))},"
                f" the longest {_ms(int(events.duration_ns.max()))}.",
                fix="Predict for every second frame, or use a smaller model or input.",
                site=site,
                model=model,
                events=len(late),
            )


#: Detectors of mistakes.
CHECKS: tuple[Callable[[_View], Iterator[Mistake]], ...] = (
    _reloaded,
    _copies,
    _blocking_loads,
    _loading_dominates,
    _serial,
    _wide_inputs,
    _full_width_interface,
    _images,
    _allocated_outputs,
    _layout,
    _slow_first,
    _unused,
    _missed_frames,
)
