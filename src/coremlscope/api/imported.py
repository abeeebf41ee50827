"""Files from elsewhere as profiles."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec
import msgspec.structs

from coremlscope.api.assemble import assemble, with_plans
from coremlscope.base.errors import CoremlscopeError, UsageError
from coremlscope.base.escaping import path_text
from coremlscope.base.findings import Finding
from coremlscope.describe.model import list_operations
from coremlscope.formats.onnx.network import ONNX
from coremlscope.interop import (
    analytics,
    call_stacks,
    coreml_profiler,
    coremltools_dumps,
    instruments,
    onnxruntime,
    power_monitors,
    powermetrics,
    runner,
    xcode_report,
)
from coremlscope.interop.core_ai import inspection, operations, regions
from coremlscope.interop.join import join
from coremlscope.interop.listing import Imported, ListingOrigin
from coremlscope.interop.origin import find_origin, named_origin
from coremlscope.interop.source import SourceFile
from coremlscope.model.ir import Model
from coremlscope.planning.hazards.summary import describe_model
from coremlscope.results.model import FunctionSummary, ModelSummary
from coremlscope.results.operations import OpTable
from coremlscope.results.plan import Plan
from coremlscope.results.profile import Profile, read_profiles
from coremlscope.results.provider import ProviderLog
from coremlscope.results.runner_record import model_name


class Importer(msgspec.Struct, frozen=True):
    """A format that is imported.

    Attributes:
        name: What the files are called, for people.
        matches: Tells its files by their name, first bytes or top-level keys.
        read: Reads one; a file about several models gives several. Raises UsageError or CorruptModelError for
            damaged files, and nothing else.
        read_together: Reads files that complete each other; None where each file stands alone.
    """

    name: str
    matches: Callable[[SourceFile], bool]
    read: Callable[[SourceFile, ListingOrigin], Imported | tuple[Imported, ...]]
    read_together: Callable[[Sequence[SourceFile], Sequence[ListingOrigin]], list[Imported]] | None = None


#: Every format, in the order in which files are matched.
IMPORTERS: tuple[Importer, ...] = (
    Importer("analytics.mil of Core ML", analytics.matches, analytics.read),
    Importer("performance report of Xcode (.mlperf)", xcode_report.matches, xcode_report.read),
    Importer("JSON of CoreMLProfiler", coreml_profiler.matches, coreml_profiler.read),
    Importer(
        "debug information and events of Core AI",
        operations.matches,
        operations.read,
        operations.read_together,
    ),
    Importer("compiled Core AI model (.aimodelc)", regions.matches, regions.read),
    Importer("JSON of coreai-build inspect", inspection.matches, inspection.read),
    Importer("JSON around coremltools", coremltools_dumps.matches, coremltools_dumps.read),
    Importer(
        "XML of xctrace export (Instruments)",
        instruments.matches,
        instruments.read,
        instruments.read_together,
    ),
    Importer("readings of powermetrics (plist or text)", powermetrics.matches, powermetrics.read),
    Importer("logs and profiles of ONNX Runtime", onnxruntime.matches, onnxruntime.read),
    Importer("call stacks as text (crash reports, lldb, sample)", call_stacks.matches, call_stacks.read),
    Importer("JSON of macmon and mactop", power_monitors.matches, power_monitors.read),
    Importer("results.json of coremlscope's runner", runner.matches, runner.read),
)

_KNOWN = "; ".join(importer.name for importer in IMPORTERS)


def import_files(
    paths: Sequence[str | os.PathLike[str]],
    model: Model | None = None,
    *,
    device: str | None = None,
    system: str | None = None,
    name: str = "",
    progress: Callable[[str, int, int], None] | None = None,
) -> Profile:
    """One profile out of files of one model.

    Args:
        paths: The files, or one saved profile.
        model: The model, whose operations theirs are joined to; without it they are joined to those of the
            file that lists the most.
        device: The device or chip that the files are from, where they do not say.
        system: Its system: `macOS 14.5`.
        name: The name of the model in files about several models; by default that of its own file.
        progress: Called with `read`, megabytes that were read of a large file, and how many it has.

    Raises:
        UsageError: A file cannot be read or is damaged, or is not of the model.
        CorruptModelError: A file is damaged.
    """
    if not paths:
        raise UsageError("no file is named", f"files that can be read: {_KNOWN}")
    sources = [SourceFile(Path(path), progress) for path in paths]
    if len(sources) == 1 and _has_own_schema(sources[0]):
        return _saved(sources[0], model)
    found = _import(sources, device, system, partial(_of_one_model, name, model))
    return _profile(found, model, Path(paths[0]))


def _saved(source: SourceFile, model: Model | None) -> Profile:
    """Returns the saved profile of a file.

    Raises:
        UsageError: The file holds several or none, or the profile is not of the model.
    """
    profile, *others = read_profiles(source.file)
    if others:
        raise UsageError(
            f"{source.path} holds profiles of {1 + len(others)} models",
            "`compare` and `serve` show all of them",
        )
    functions = [] if model is None else list(model.description.functions)
    if model is not None and not set(profile.ops.id) <= set(list_operations(model, functions=functions).id):
        raise UsageError(f"{source.path} is not a profile of that model", "name the model that was profiled")
    return profile


def _of_one_model(
    name: str, model: Model | None, found: Sequence[Imported], path: Path
) -> Sequence[Imported]:
    """Returns the content about the model; in a file about several models, that of its name.

    Raises:
        UsageError: The file is about several models, and it is not clear which one is meant.
    """
    names = list(dict.fromkeys(one.model for one in found))
    if len(names) < 2 and not name:
        return found
    held = f"{path} holds results of {len(names)} models ({', '.join(names)[:200]})"
    if model is None and not name:
        raise UsageError(held, "name one with --model; `compare` and `serve` show all of them")
    wanted = name or model_name(None if model is None else model.source)
    if wanted not in names:
        raise UsageError(f"{held}, and none of {wanted}", "name one of them with --model")
    return [one for one in found if one.model == wanted]


def _profile(found: Sequence[Imported], model: Model | None, path: Path) -> Profile:
    if model is not None:
        summary = describe_model(model)
        table = list_operations(model, functions=_shared_functions(model, found))
        name = Path(summary.path).name or "the model"
    else:
        largest = max(found, key=lambda one: len(one.ops))
        table = largest.ops
        summary, name = _summary(largest, table, path), largest.origin.file
    joined = [one if one.ops is table else join(one, table, name) for one in found]
    measured = [one for imported in joined for one in imported.measurements]
    findings = [one for imported in joined for one in imported.findings]
    if model is not None:
        findings += _of_other_models(found, name)
    profile = assemble(summary, table, measurements=measured, findings=findings)
    logs = [log for one in found for log in one.provider_logs]
    if logs:
        profile = msgspec.structs.replace(profile, provider_logs=_with_agreements(logs, model))
    return with_plans(profile, _with_distinct_labels([plan for one in joined for plan in one.plans]))


def _with_agreements(logs: Sequence[ProviderLog], model: Model | None) -> tuple[ProviderLog, ...]:
    """Returns what ONNX Runtime wrote; with an ONNX model, how far the rules agree with it."""
    if model is None or model.container != ONNX or model.source is None:
        return tuple(logs)
    from coremlscope.api.providers import add_agreement

    return tuple(add_agreement(log, model.source) for log in logs)


def _of_other_models(found: Sequence[Imported], name: str) -> list[Finding]:
    """Recordings that name another model: Core ML writes the name of the file, with a number."""
    stem = Path(name).stem
    return [
        Finding(
            id="another-model-recorded",
            severity="warning",
            text=f"{one.origin.file} is a recording of {one.model}, and the model is {name}.",
            hint="name the model that was recorded",
        )
        for one in found
        if one.model
        and any(measured.recording for measured in one.measurements)
        and re.sub(r"-\d+$", "", one.model) != stem
    ]


def _with_distinct_labels(plans: Sequence[Plan]) -> tuple[Plan, ...]:
    """Returns the plans; those of the same device and system with the names of their files, as labels."""
    counts = Counter((plan.device, plan.os) for plan in plans)
    return tuple(
        msgspec.structs.replace(plan, device=f"{plan.device} ({plan.cost_model})")
        if counts[plan.device, plan.os] > 1
        else plan
        for plan in plans
    )


def read_any(
    path: str | os.PathLike[str],
    *,
    device: str | None = None,
    system: str | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> tuple[Profile, ...]:
    """Returns the profiles in a file: saved ones, or one for each model of an imported file.

    Args:
        path: The file.
        device: The device or chip that an imported file is from, where it does not say.
        system: Its system: `macOS 14.5`.
        progress: See `import_files`.

    Raises:
        UsageError: The file cannot be read, is damaged, or is of no known format.
        CorruptModelError: An imported file is damaged.
    """
    source = SourceFile(Path(path), progress)
    if is_saved(path):
        return read_profiles(source.file)
    found = _import([source], device, system, lambda read, _: read)
    names = dict.fromkeys(one.model for one in found)
    return tuple(_profile([one for one in found if one.model == name], None, Path(path)) for name in names)


def is_saved(path: str | os.PathLike[str]) -> bool:
    """Returns True if a file that `read_any` is for contains profiles that coremlscope saved.

    Raises:
        UsageError: The file cannot be read.
    """
    source = SourceFile(Path(path))
    return _has_own_schema(source) or _importer(source) is None


def _has_own_schema(source: SourceFile) -> bool:
    """Returns True if a file contains results that coremlscope itself saved; the runner's are imported."""
    return "schema" in source.keys and not runner.matches(source)


def _importer(source: SourceFile) -> Importer | None:
    return next((importer for importer in IMPORTERS if importer.matches(source)), None)


def _import(
    sources: Sequence[SourceFile],
    device: str | None,
    system: str | None,
    choose: Callable[[Sequence[Imported], Path], Sequence[Imported]],
) -> list[Imported]:
    """Reads files; those that complete each other as one, where the first of them is.

    Args:
        sources: The files.
        device: The device that they are from, where they do not say.
        system: Its system.
        choose: Chooses from what a file says about several models.

    Raises:
        UsageError: The files hold no results.
    """
    found: list[Imported] = []
    read: set[SourceFile] = set()
    importers = {source: _required_importer(source) for source in sources}
    for source, importer in importers.items():
        if source in read:
            continue
        group = [source]
        if importer.read_together is not None:
            group = [other for other, kind in importers.items() if kind is importer]
        origins = [named_origin(find_origin(one.path), device, system, by="the user") for one in group]
        read.update(group)
        try:
            if importer.read_together is not None and len(group) > 1:
                found += importer.read_together(group, origins)
            else:
                read_one = importer.read(source, origins[0])
                found += choose(read_one if isinstance(read_one, tuple) else (read_one,), source.path)
        except CoremlscopeError as error:
            if str(source.path) in error.message or len(group) > 1:
                raise
            raise type(error)(f"{source.path}: {error.message}", error.hint) from error
    if not found:
        raise UsageError(f"{sources[0].path} holds no results", "export the file again")
    return found


def _required_importer(source: SourceFile) -> Importer:
    if _has_own_schema(source):
        raise UsageError(
            f"{source.path} was written by coremlscope", "import it alone; `compare` and `serve` read several"
        )
    importer = _importer(source)
    if importer is None:
        hint = f"files that can be read: {_KNOWN}; `coremlscope doctor` explains logs and crash reports"
        raise UsageError(f"{source.path} is of no format that is imported", hint)
    return importer


def _shared_functions(model: Model, found: Sequence[Imported]) -> list[str]:
    """The functions of the model that a file lists, the default one if there is none."""
    if not model.content.functions:
        return []
    listed = {name for one in found for name in one.ops.functions}
    return [name for name in model.description.functions if name in listed]


def _summary(imported: Imported, ops: OpTable, path: Path) -> ModelSummary:
    """Summarizes a model whose file is absent, from the table of operations."""
    functions = []
    for name in ops.functions or ("main",):
        types = Counter(kind for kind, of in zip(ops.type, ops.function, strict=True) if of == name)
        functions.append(FunctionSummary(name=name, inputs=(), outputs=(), ops=dict(types.most_common())))
    return ModelSummary(
        path=imported.model or path_text(path),
        functions=tuple(functions),
        facts=(("imported from", imported.origin.file),),
        absent="only files about the model were imported",
    )
