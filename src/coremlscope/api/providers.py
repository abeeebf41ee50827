"""How ONNX Runtime's Core ML provider divides an ONNX model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec.structs

from coremlscope.base.errors import UsageError
from coremlscope.devices import SETTINGS, ComputeUnits, Device
from coremlscope.formats.container import ONNX_SUFFIX
from coremlscope.formats.onnx.reader import read_onnx
from coremlscope.planning.onnxruntime.agreement import compare_with_log, count_differences
from coremlscope.planning.onnxruntime.case import FORMATS, Format, ProviderSettings, Release
from coremlscope.planning.onnxruntime.division import Division, divide
from coremlscope.planning.onnxruntime.pricing import Pricing, decide
from coremlscope.planning.onnxruntime.rules.rule import NEWEST, OLDEST
from coremlscope.planning.onnxruntime.rules.table import RELEASES
from coremlscope.results.profile import Profile
from coremlscope.results.provider import (
    CORE_ML_PROVIDER,
    ProviderAgreement,
    ProviderLog,
    ProviderReport,
)
from coremlscope.runtime.basic_pass.preparation import SeenGraph, as_it_stands

#: A session whose graph differs by more of its operators is that of another model.
_OTHER_GRAPH = 0.2


def find_release(text: str | None) -> Release:
    """Returns a release of ONNX Runtime: `1.27`, or `1.27.1`; the newest known one for None.

    Raises:
        UsageError: Its rules are not known.
    """
    if text is None:
        return NEWEST
    parts = text.removeprefix("v").split(".")
    if len(parts) >= 2 and all(part.isdecimal() for part in parts[:2]):
        release = int(parts[0]), int(parts[1])
        if OLDEST <= release <= NEWEST:
            return release
    known = " to ".join(".".join(map(str, one)) for one in (OLDEST, NEWEST))
    raise UsageError(f"the rules of ONNX Runtime {text!r} are not known", f"known are those of {known}")


def ask_provider(
    path: Path,
    formats: Sequence[Format] = FORMATS,
    *,
    release: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    is_static: bool = False,
    runs: bool = True,
) -> tuple[SeenGraph, tuple[Division, ...]]:
    """Divides an ONNX model as ONNX Runtime's Core ML provider does.

    Args:
        path: The model.
        formats: The formats of Core ML models, each of which is divided by itself.
        release: The release of ONNX Runtime; the newest known one for None.
        shapes: Shapes of inputs by name, and sizes of free dimensions by theirs.
        is_static: Whether the option RequireStaticInputShapes is on.
        runs: Whether ONNX Runtime optimises the graph, in a process of its own.

    Returns:
        The graph that the provider is asked about, and one division for each format.

    Raises:
        ModelError: The model cannot be read.
        InputError: There is no such input or dimension.
        UsageError: The rules of the release are not known.
    """
    chosen = find_release(release)
    seen = _seen(path, shapes or {}, runs=runs)
    notes = [f"The graph is judged {seen.basis}, because {seen.doubt}"] if seen.doubt else []
    return seen, tuple(
        divide(
            seen.model,
            ProviderSettings(format=format_, release=chosen, is_static=is_static),
            seen.basis,
            notes,
        )
        for format_ in formats
    )


def _seen(path: Path, shapes: Mapping[str, Sequence[int]], *, runs: bool) -> SeenGraph:
    model = read_onnx(path)
    if not runs:
        return as_it_stands(model, shapes, "nothing is run here")
    from coremlscope.runtime.basic_pass.optimise import optimise

    return optimise(model, shapes)


def add_agreement(log: ProviderLog, path: Path) -> ProviderLog:
    """Adds to what ONNX Runtime wrote of a session how far the rules agree with it.

    A log names neither the format nor the release, so those under which both agree best are told, the newest
    first. A session without the provider, and one of a graph of another size, have no agreement.

    Args:
        log: What ONNX Runtime wrote.
        path: The model.

    Raises:
        ModelError: The model cannot be read.
    """
    if not log.rounds and CORE_ML_PROVIDER not in log.placed:
        return log
    seen = _seen(path, {}, runs=True)
    nodes = seen.model.graph.nodes
    if log.rounds and min(abs(one.nodes - len(nodes)) for one in log.rounds) > len(nodes) * _OTHER_GRAPH:
        return log
    oldest, newest = log.releases or (None, None)
    best: tuple[tuple[int, int], ProviderAgreement] | None = None
    for release in reversed(RELEASES):
        if not (find_release(oldest) if oldest else OLDEST) <= release <= find_release(newest):
            continue
        for format_ in FORMATS:
            settings = ProviderSettings(format=format_, release=release)
            agreement = compare_with_log(log, nodes, divide(seen.model, settings))
            apart = count_differences(log, agreement)
            if best is None or apart < best[0]:
                best = apart, agreement
        if best is not None and not any(best[0]):
            break
    return log if best is None else msgspec.structs.replace(log, agreement=best[1])


def report_session(
    path: Path,
    format_: Format,
    release: str | None,
    devices: Sequence[Device],
    settings: Sequence[ComputeUnits],
    shapes: Mapping[str, Sequence[int]],
) -> ProviderReport:
    """Returns what a session with the provider makes of an ONNX model in one format, with estimates.

    Args:
        path: The model.
        format_: The format of Core ML models.
        release: The release of ONNX Runtime; the newest known one for None.
        devices: The chips and systems.
        settings: The settings of compute units.
        shapes: Shapes of inputs by name, and sizes of free dimensions by theirs.

    Raises:
        ModelError: The model cannot be read.
        InputError: There is no such input or dimension.
        UsageError: The file is no ONNX model, or the rules of the release are not known.
    """
    if path.suffix.lower() != ONNX_SUFFIX:
        raise UsageError(f"{path.name} is not an ONNX model, which --format is for", "leave --format out")
    seen, (division,) = ask_provider(path, (format_,), release=release, shapes=shapes)
    (report,) = Pricing(seen.model, shapes, devices, settings).reports([division])
    return report


def add_providers(
    profile: Profile,
    path: Path,
    devices: Sequence[Device],
    formats: Sequence[Format] = FORMATS,
    *,
    release: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    runs: bool = True,
) -> Profile:
    """Adds what ONNX Runtime's Core ML provider makes of an ONNX model, and whether that is faster.

    Args:
        profile: The profile of the model, whose estimates are those of the whole, converted model.
        path: The model.
        devices: The chips and systems.
        formats: The formats of Core ML models.
        release: The release of ONNX Runtime; the newest known one for None.
        shapes: Shapes of inputs by name, and sizes of free dimensions by theirs.
        runs: Whether ONNX Runtime optimises the graph, in a process of its own.
    """
    seen, divisions = ask_provider(path, formats, release=release, shapes=shapes, runs=runs)
    pricing = Pricing(seen.model, shapes or {}, devices, tuple(SETTINGS))
    reports = pricing.reports(divisions)
    verdicts = []
    for device in devices:
        converted = [
            one.latency for one in profile.estimates if one.device == device.name and not one.left_out
        ]
        best = min(converted, key=lambda one: one.value, default=None)
        verdicts.append(decide(reports, pricing.cpu(device), device, best))
    return msgspec.structs.replace(profile, providers=reports, provider_verdicts=tuple(verdicts))
