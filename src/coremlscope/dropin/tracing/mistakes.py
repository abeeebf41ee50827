"""Mistakes that a recording shows: figures, the line to change, the fix, and what it would save.

`CHECKS` lists what looks for them, in recordings of Python programs and of Instruments alike; each says what
a recording must have for it. The thresholds leave out what costs little.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise

import msgspec
import numpy as np
from msgspec.structs import replace

from coremlscope.base.units import format_bytes, format_duration
from coremlscope.results.aggregate import covered_ns
from coremlscope.results.events import (
    COPIED,
    FAILED,
    IN_EVENT_LOOP,
    KIND_CODES,
    NOT_CONTIGUOUS,
    ON_MAIN_THREAD,
    SHARES_BASE,
)
from coremlscope.results.trace import Events, Mistake, Trace, TracedModel, costs_enough

#: A mistake, and the events whose time the change would save; None if the recording does not tell.
_Found = tuple[Mistake, Events | None]

#: Fewer calls may be a program's start.
_FEWEST_CALLS = 3
#: Data conversions that take less than this share of the predictions' time are left out.
_LEAST_SHARE = 0.05
#: The same where the interface of the model shows no cause, and the time that they take in a prediction.
_LARGE_SHARE, _LONG_NS = 0.25, 3_000_000
#: Outputs smaller than this are cheap to allocate.
_LARGE_OUTPUT = 1 << 20
_FEWEST_OUTPUTS = 10
#: Pictures of fewer bytes are cheap to convert: 128 × 128 values of fp32.
_LARGE_IMAGE = 1 << 16
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

    def details_with(self, word: str) -> list[int]:
        """The details that contain a word."""
        pattern = re.compile(rf"\b{word}", re.IGNORECASE)
        return [index for index, text in enumerate(self.trace.details) if pattern.search(text)]

    @cached_property
    def on_neural_engine(self) -> Events:
        """Loads and predictions by Instruments' table of the Neural Engine, which has no models."""
        events = self.trace.events.of("Neural Engine busy")
        return events.where(
            np.isin(events.detail, [*self.details_with("load"), *self.details_with("predict")])
        )

    def loads_of(self, models: Sequence[int]) -> Events:
        """The loads of some of the models."""
        return self.loads.where(np.isin(self.loads.model, models))

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


class Check(msgspec.Struct, frozen=True):
    """What looks for a kind of mistake.

    Attributes:
        ids: The ids of the mistakes that it finds.
        find: Looks for them.
        needs: What a recording must have: `loads`, `predictions`, loads on the `neural engine`, `lines` of
            a program, `interfaces` of models, a number of `frames` per second to reach.
    """

    ids: tuple[str, ...]
    find: Callable[[_View], Iterator[_Found]]
    needs: tuple[str, ...]


def find_mistakes(trace: Trace) -> Trace:
    """Returns the trace with its mistakes, the costliest first, and which ones were looked for.

    Mistakes that something else found, such as plans of the models, stay.
    """
    view = _View(trace)
    has = {
        "loads": len(view.loads) > 0,
        "predictions": len(view.predictions) > 0,
        # Next to loads of Core ML itself, those of its engine say nothing new.
        "neural engine": not len(view.loads)
        and bool(np.isin(view.on_neural_engine.detail, view.details_with("load")).any()),
        "lines": bool(trace.sites),
        "interfaces": any(model.inputs for model in trace.models),
        "frames": trace.fps is not None,
    }
    checks = [check for check in CHECKS if all(has[need] for need in check.needs)]
    found = [one for check in checks for one in check.find(view)]
    searched = tuple(id_ for check in checks for id_ in check.ids)
    others = [m for m in trace.mistakes if not any(m.id in check.ids for check in CHECKS)]
    counted = [one for one in _count_once(_merged(found, trace)) if costs_enough(one, trace)]
    return replace(trace, mistakes=(*counted, *others), searched=searched)


def _merged(found: Sequence[_Found], trace: Trace) -> Iterator[_Found]:
    """Yields mistakes; those of one kind, at one line, with one fix are one, with all models that show it."""
    groups: dict[tuple[str, str, int], list[_Found]] = defaultdict(list)
    for mistake, saved in found:
        groups[mistake.id, mistake.fix, mistake.site].append((mistake, saved))
    for group in groups.values():
        if len(group) == 1:
            yield group[0]
            continue
        group.sort(key=lambda one: 0 if one[1] is None else -int(one[1].duration_ns.sum()))
        first = group[0][0]
        own, *others = dict.fromkeys(trace.models[one.model].name for one, _ in group if one.model >= 0) or (
            "",
        )
        also = f"; likewise {_listed(others)}" if others else f"; {len(group)} times in all"
        merged = replace(
            first,
            title=f"{first.title}{also}",
            evidence=f"{f'Of {own}: ' if others else ''}{first.evidence}",
            events=sum(mistake.events for mistake, _ in group),
        )
        spans = [saved for _, saved in group if saved is not None]
        yield merged, _joined(spans) if spans else None


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def _joined(parts: Sequence[Events]) -> Events:
    """Returns the events of several selections."""
    columns = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in Events.__struct_fields__
    }
    return Events(**columns)


def _count_once(found: Iterable[_Found]) -> Iterator[Mistake]:
    """Yields the mistakes, the costliest first, with the time of each that no earlier one counts.

    Time is that of the clock: what two threads waste at once is lost once.
    """
    spans = [
        (
            mistake,
            np.zeros((0, 2), np.int64) if saved is None else np.stack([saved.start_ns, saved.end_ns], 1),
        )
        for mistake, saved in found
    ]
    costs = [(mistake, span, _covered_ns(span)) for mistake, span in spans]
    costs.sort(key=lambda one: (one[0].severity != "warning", -one[2]))
    counted = np.zeros((0, 2), np.int64)
    for mistake, span, cost in costs:
        both = np.concatenate([counted, span])
        own = _covered_ns(both) - _covered_ns(counted)
        counted = both
        yield replace(mistake, gain_s=own / 1e9, shared_s=(cost - own) / 1e9) if len(span) else mistake


def _covered_ns(spans: np.ndarray) -> int:
    """The time that at least one span of start and end covers."""
    return covered_ns(*spans.T)


def _ms(nanoseconds: float) -> str:
    return format_duration(nanoseconds / 1e9)


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def _median(values: Sequence[float] | np.ndarray) -> float:
    return float(np.median(values)) if len(values) else 0.0


def _reloaded(view: _View) -> Iterator[_Found]:
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
            mistake = Mistake(
                id="load-in-loop" if in_loop else "model-reloaded",
                title=f"{model.name} is loaded {_times(len(indices))}{' by one line' if site >= 0 else ''}",
                evidence=f"{len(indices)} loads take {_ms(sum(durations))},"
                f" the median {_ms(_median(durations))}, for {calls} predictions.",
                fix="Load the model once, before the loop or at the start, and keep the object.",
                site=site,
                model=indices[0],
                events=len(indices),
            )
            yield mistake, view.loads_of(indices[1:])
        if len(by_site) > 1 and not _overlap(view, [indices[0] for indices in by_site.values()]):
            first, *later = [indices[0] for indices in by_site.values()]
            model = view.trace.models[first]
            durations = [view.load_of[index][2] for index in later]
            mistake = Mistake(
                id="model-reloaded",
                title=f"{model.name} is loaded again",
                evidence=f"{len(by_site)} lines load it; all but the first take {_ms(sum(durations))}.",
                fix="Load the model once and pass the object on.",
                site=view.load_of[later[0]][0],
                model=later[0],
                events=len(later),
            )
            yield mistake, view.loads_of(later)


def _reloaded_unit(view: _View) -> Iterator[_Found]:
    """Loads on the Neural Engine between its predictions, where Instruments has no rows of Core ML itself."""
    events = view.on_neural_engine
    is_load = np.isin(events.detail, view.details_with("load"))
    begins = is_load & np.concatenate([[True], ~is_load[:-1]])[: len(events)]
    if int(begins.sum()) < _FEWEST_CALLS:
        return
    loads = events.where(is_load)
    again = events.where(is_load & (np.cumsum(begins) > 1))
    mistake = Mistake(
        id="neural-engine-reloaded",
        title=f"the Neural Engine loads {_times(int(begins.sum()))}, with predictions in between",
        evidence=f"{len(loads)} loads take {_ms(int(loads.duration_ns.sum()))}, the median"
        f" {_ms(_median(loads.duration_ns))}, next to {len(events) - len(loads)} predictions on it.",
        fix="Load each model once and keep the object. If other programs used the Neural Engine meanwhile,"
        " the loads may be theirs.",
        events=len(loads),
    )
    yield mistake, again


def _end(view: _View, model: int) -> int:
    released = view.trace.models[model].unloaded_at_ns
    return view.trace.duration_ns if released is None else released


def _overlap(view: _View, models: Sequence[int]) -> bool:
    """Returns True if two of the models are in memory at once."""
    spans = sorted((view.trace.models[m].loaded_at_ns, _end(view, m)) for m in models)
    return any(start < before for (_, before), (start, _) in pairwise(spans))


def _copies(view: _View) -> Iterator[_Found]:
    for group in view.same.values():
        sites = [view.load_of[index][0] for index in group]
        firsts = [index for position, index in enumerate(group) if sites[position] not in sites[:position]]
        if len(firsts) < 2 or not _overlap(view, firsts):
            continue
        model = view.trace.models[firsts[0]]
        durations = [view.load_of[index][2] for index in firsts[1:]]
        mistake = Mistake(
            id="two-copies",
            title=f"{model.name} is in memory {_times(len(firsts))}",
            evidence=f"{len(firsts)} lines load it, and the objects live at the same time; loading the others"
            f" took {_ms(sum(durations))}.",
            fix="Share one loaded model: predictions from several threads are safe.",
            site=view.load_of[firsts[1]][0],
            model=firsts[1],
            events=len(firsts),
        )
        yield mistake, view.loads_of(firsts[1:])


def _blocking_loads(view: _View) -> Iterator[_Found]:
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
        mistake = Mistake(
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
        )
        yield mistake, here


def _loading_dominates(view: _View) -> Iterator[_Found]:
    """Models whose loads take longer than the few predictions after them, as one mistake of all."""
    chosen: list[list[int]] = []
    for group in view.same.values():
        calls = int(view.calls[group].sum())
        # What is loaded in a loop has a mistake of its own, which says more.
        is_chosen = len(group) < _FEWEST_CALLS and 0 < calls <= 2 * len(group)
        if is_chosen and _taken_ns(view.loads, group) > _taken_ns(view.predictions, group):
            chosen.append(group)
    if not chosen:
        return
    models = [index for group in chosen for index in group]
    names = dict.fromkeys(view.trace.models[group[0]].name for group in chosen)
    loading, predicting = (_ms(_taken_ns(events, models)) for events in (view.loads, view.predictions))
    mistake = Mistake(
        id="load-above-predict",
        severity="warning" if len(models) > len(chosen) else "info",
        title=f"{_listed([*names])} {'takes' if len(names) == 1 else 'take'} longer to load than to predict",
        evidence=f"{_counted(len(models), 'load')} take {loading},"
        f" {_counted(int(view.calls[models].sum()), 'prediction')} {predicting}.",
        fix="Keep one process or object for many predictions, or load a compiled model.",
        site=view.load_of[models[0]][0],
        model=models[0],
        events=len(models),
    )
    yield mistake, None


def _taken_ns(events: Events, models: Sequence[int]) -> int:
    """The sum of the durations of the events of some models."""
    return int(events.duration_ns[np.isin(events.model, models)].sum())


def _serial(view: _View) -> Iterator[_Found]:
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
            mistake = Mistake(
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
            yield mistake, None


def _longest_run(mask: np.ndarray) -> int:
    best = length = 0
    for value in mask.tolist():
        length = length + 1 if value else 0
        best = max(best, length)
    return best


def _wide_inputs(view: _View) -> Iterator[_Found]:
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
        mistake = Mistake(
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
        )
        yield mistake, data


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


def _conversions(view: _View) -> Iterator[_Found]:
    """Conversions that cost something, by their cause: what the model's interface is, where that is known."""
    for model, site, events in view.by_use(view.predictions):
        facts = view.trace.models[model]
        if (view.predictions.site == site).sum() < _FEWEST_CALLS:
            continue
        data = view.inside(events, "convert input", "convert output")
        cause = _cause_of_conversions(facts)
        if cause is not None and facts.inputs:  # Recorded by us: Instruments tells neither bytes nor copies.
            copied = data.where((data.flags & COPIED) > 0)
            is_large = len(copied) and int(copied.bytes.sum()) // len(events) >= cause.least_bytes
            data, cause = (copied, cause) if is_large else (data, None)
        spent, size = int(data.duration_ns.sum()), int(data.bytes.sum()) // len(events)
        if cause is None and spent < _LONG_NS * len(events):
            continue
        least = _LARGE_SHARE if cause is None else _LEAST_SHARE
        cause = cause or _OTHER_CONVERSIONS
        if not len(data) or spent < least * events.duration_ns.sum():
            continue
        what = f"{format_bytes(size)} per prediction" if size else f"{len(data):,} conversions"
        mistake = Mistake(
            id=cause.id,
            title=cause.title.format(model=facts.name),
            evidence=f"{cause.evidence}: {what}, in {_ms(spent)}, {_share(spent, events)} of predicting.",
            fix=cause.fix,
            site=site,
            model=model,
            events=len(events),
        )
        yield mistake, data


class _Cause(msgspec.Struct, frozen=True, kw_only=True):
    """Why values are converted in every prediction, and what to change."""

    id: str
    title: str
    evidence: str
    fix: str
    least_bytes: int = 0


_OTHER_CONVERSIONS = _Cause(
    id="data-converted",
    title="{model} converts data in every prediction",
    evidence="Values are converted between the program's type and the model's",
    fix="Give values in the model's own type and layout: pixel buffers of its format and size, contiguous"
    " arrays of its element type.",
)


def _cause_of_conversions(facts: TracedModel) -> _Cause | None:
    """The cause that the interface of a model shows; None if there is none."""
    if not facts.inputs and not facts.outputs:
        return _Cause(
            id="data-converted",
            title="{model} converts data in every prediction",
            evidence="Values are converted between the program's type and the model's",
            fix="Give values in the model's own type: fp16 arrays, or pictures of"
            " `kCVPixelFormatType_OneComponent16Half` for a model with fp16 inputs and outputs.",
        )
    if not facts.is_half:
        return None
    features = (*facts.inputs, *facts.outputs)
    images = [f for f in features if f.type == "image" and f.dtype == "uint8"]
    wide = [f.name for f in features if f.dtype == "float32"]
    if images:
        is_gray = all(len(f.shape) < 3 for f in images)
        return _Cause(
            id="image-8-bit",
            title="{model} computes in fp16, but takes or returns 8-bit images",
            evidence=f"{', '.join(f.name for f in images)}: 8-bit pixels become fp16 values, or the reverse",
            fix="Convert the model with `ct.ImageType(color_layout=ct.colorlayout.GRAYSCALE_FLOAT16)`, and"
            " give it pixel buffers of `kCVPixelFormatType_OneComponent16Half`."
            if is_gray
            else "Take fp16 arrays, `ct.TensorType(dtype=np.float16)`, and fill their memory where pictures"
            " are decoded; Core ML has fp16 images of one channel only.",
            least_bytes=_LARGE_IMAGE,
        )
    if wide:
        return _Cause(
            id="float32-interface",
            title="{model} computes in fp16 behind a float32 interface",
            evidence=f"{', '.join(wide)} are float32 and are converted",
            fix="Convert the model with fp16 inputs and outputs, `ct.TensorType(dtype=np.float16)`.",
            least_bytes=_LARGE_OUTPUT,
        )
    return None


def _images(view: _View) -> Iterator[_Found]:
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
        mistake = Mistake(
            id="image-converted",
            title=f"images are {what} before predictions",
            evidence=f"{_times(len(here)).capitalize()} ({detail}), which takes {_ms(spent)}:"
            f" {_share(spent, view.predictions)} of the time of all predictions.",
            fix="Take pictures in the model's size and mode, or draft them while decoding (`Image.draft`); on"
            " Apple's devices Vision scales images on the GPU.",
            site=site,
            events=len(here),
        )
        yield mistake, here


def _allocated_outputs(view: _View) -> Iterator[_Found]:
    for model, site, events in view.by_use(view.predictions):
        facts = view.trace.models[model]
        sizes = [_output_bytes(f.dtype, f.shape) for f in facts.outputs]
        if max(sizes, default=0) < _LARGE_OUTPUT or len(events) < _FEWEST_OUTPUTS:
            continue
        copies = view.inside(events, "convert output")
        spent = int(copies.duration_ns.sum())
        mistake = Mistake(
            id="outputs-allocated",
            title=f"{facts.name} allocates its outputs in every prediction",
            evidence=f"{format_bytes(sum(sizes))} for each of {len(events)} predictions;"
            f" copying them takes {_ms(spent)}, {_share(spent, events)} of predicting.",
            fix="Give the prediction memory to write to: `MLPredictionOptions.outputBackings` in an app, IO"
            " binding in ONNX Runtime; or let the model return less (a class map instead of scores, fp16).",
            site=site,
            model=model,
            events=len(events),
        )
        yield mistake, copies


def _output_bytes(dtype: str, shape: Sequence[int]) -> int:
    if not dtype or not shape or min(shape) < 1:
        return 0
    return int(np.prod(shape)) * np.dtype(dtype).itemsize


def _layout(view: _View) -> Iterator[_Found]:
    for model, site, events in view.by_use(view.predictions):
        odd = events.where((events.flags & NOT_CONTIGUOUS) > 0)
        if not len(odd):
            continue
        detail = view.trace.details[int(odd.detail[0])] if odd.detail[0] >= 0 else ""
        copies = view.inside(odd, "convert input")
        spent = int(copies.duration_ns.sum())
        mistake = Mistake(
            id="input-not-contiguous",
            title=f"inputs of {view.trace.models[model].name} are not contiguous",
            evidence=f"{len(odd)} of {len(events)} predictions get an array in another order than its memory"
            f" ({detail}), which is copied element by element: conversions take {_ms(spent)}.",
            fix="Create the array in the model's order; where that is not possible, copy it once with"
            " `np.ascontiguousarray`.",
            site=site,
            model=model,
            events=len(odd),
        )
        yield mistake, copies


def _slow_first(view: _View) -> Iterator[_Found]:
    for model, events in view.by_model(view.predictions):
        if len(events) < _FEWEST_CALLS + 2:
            continue
        first, usual = int(events.duration_ns[0]), _median(events.duration_ns[1:])
        if first < _SLOW_FIRST * usual or first - usual < _SLOW_FIRST_NS:
            continue
        prepared = view.inside(events.where(np.array([0])), "prepare engine")
        if not len(prepared) and view.trace.models[model].runtime != "Core ML":
            continue  # It was delayed by something else, such as a busy machine.
        delay = replace(events.where(np.array([0])), duration_ns=np.array([first - int(usual)]))
        why = f" {_ms(int(prepared.duration_ns.sum()))} of it prepare the engine." if len(prepared) else ""
        mistake = Mistake(
            id="slow-first-prediction",
            title=f"the first prediction with {view.trace.models[model].name} takes"
            f" {first / max(usual, 1):.0f} times as long as the others",
            evidence=f"It takes {_ms(first)}, the median of {len(events) - 1} others {_ms(usual)}.{why}",
            fix="Predict once with a dummy input after loading, before the user waits.",
            site=int(events.site[0]),
            model=model,
            events=1,
        )
        yield mistake, delay


def _unused(view: _View) -> Iterator[_Found]:
    users = {(m.process, m.key) for i, m in enumerate(view.trace.models) if view.calls[i]}
    for index, model in enumerate(view.trace.models):
        load = view.load_of.get(index)
        if load is None or (model.process, model.key) in users or view.calls[index]:
            continue
        if not view.trace.processes[model.process].ended:
            continue
        mistake = Mistake(
            id="model-unused",
            title=f"{model.name} is loaded and never used",
            evidence=f"Loading it took {_ms(load[2])}; no prediction followed.",
            fix="Load it when it is needed, or remove it.",
            site=load[0],
            model=index,
            events=1,
        )
        yield mistake, view.loads_of([index])


def _missed_frames(view: _View) -> Iterator[_Found]:
    if view.trace.fps is None:
        return
    frame_ns = 1e9 / view.trace.fps
    for model, site, events in view.by_use(view.predictions):
        late = events.where(events.duration_ns > frame_ns)
        if len(late) and len(events) >= _FEWEST_CALLS:
            mistake = Mistake(
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
            yield mistake, None


#: What looks for mistakes.
CHECKS: tuple[Check, ...] = (
    Check(("load-in-loop", "model-reloaded"), _reloaded, ("loads",)),
    Check(("neural-engine-reloaded",), _reloaded_unit, ("neural engine",)),
    Check(("two-copies",), _copies, ("loads", "lines")),
    Check(("load-on-main-thread",), _blocking_loads, ("loads", "lines")),
    Check(("load-above-predict",), _loading_dominates, ("loads", "predictions")),
    Check(("serial-predictions",), _serial, ("predictions", "lines")),
    Check(("wide-inputs",), _wide_inputs, ("predictions", "interfaces")),
    Check(("float32-interface", "image-8-bit", "data-converted"), _conversions, ("predictions",)),
    Check(("image-converted",), _images, ("predictions", "lines")),
    Check(("outputs-allocated",), _allocated_outputs, ("predictions", "interfaces")),
    Check(("input-not-contiguous",), _layout, ("predictions", "interfaces")),
    Check(("slow-first-prediction",), _slow_first, ("predictions",)),
    Check(("model-unused",), _unused, ("loads",)),
    Check(("frames-missed",), _missed_frames, ("predictions", "frames")),
)
