"""Makes the variants of a model, and one of them for good."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import pickle
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import msgspec.structs

from coremlscope.api.assemble import made_here
from coremlscope.api.own_measurements.using import use_own
from coremlscope.base.budget import machine_memory_bytes
from coremlscope.base.errors import (
    INTERRUPTED_EXIT,
    CoremlscopeError,
    MissingWeightsError,
    OutputError,
    UnsupportedModelError,
    UsageError,
)
from coremlscope.base.escaping import path_text
from coremlscope.base.findings import Finding
from coremlscope.base.processes.child import ChildLimits
from coremlscope.base.scratch import scratch_folder
from coremlscope.base.units import shown
from coremlscope.base.writing import (
    check_apart,
    check_file,
    check_new_folder,
    new_folder,
    temporary_error,
    write_draft,
    write_file,
)
from coremlscope.devices import find_device
from coremlscope.devices.targets import Targets
from coremlscope.formats import container
from coremlscope.formats.mlpackage import MANIFEST
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.measure.coreml.files import readable_by_core_ml
from coremlscope.model.features.dummy import dummy_values
from coremlscope.model.features.shapes import bind_shapes, check_shape
from coremlscope.model.ir import (
    ArrayFeature,
    EnumeratedShapes,
    ImageFeature,
    Model,
    ShapeFlexibility,
    kind_with_article,
)
from coremlscope.planning.answer.comparison import compare_answers
from coremlscope.planning.cost.latency.own import NOTHING_OWN
from coremlscope.planning.rewrites.transforms import Transform, default_transforms, parse_transform, why_not
from coremlscope.results.answer import PairVerdict
from coremlscope.results.encoding import decode, plain
from coremlscope.results.variants import ORIGINAL, Variant, VariantReport
from coremlscope.runtime.execution.cache import ArtefactCache, default_cache, digest_of_code
from coremlscope.runtime.execution.random_weights import with_random_weights
from coremlscope.runtime.execution.sequence_lengths import choose_lengths
from coremlscope.runtime.execution.wiring import bodies_of, interface_of, wire
from coremlscope.studies.variants.coremltools_steps import needs_coremltools
from coremlscope.studies.variants.evaluation import Question, write_samples
from coremlscope.studies.variants.pool import VariantPool, worker_count
from coremlscope.studies.variants.worker import VariantJob, without_change

#: Called with the title of what is done, the variants that are ready, and how many there will be.
Progress = Callable[[str, int, int], None]

#: Synthetic inputs where no real ones are given, and the most real ones.
_SYNTHETIC, _MOST_SAMPLES = 4, 64
#: Clustering of large weights into 256 values takes many minutes, without a message.
_PATIENCE_S = 4 * 3600.0
#: Larger ends of ranges are not among the shapes that are enumerated.
_LARGEST_EXTENT = 4096
#: The file in the cache, and the packages whose versions its content depends on.
_RESULT, _PACKAGES = "variant.json", ("coremltools", "numpy", "onnxruntime", "scikit-learn")

_ON_RANDOM = Finding(
    id="random-weights",
    severity="warning",
    text="Absent weights are synthetic: times and sizes are those of the structure, and outputs say nothing.",
    hint="add the file of the weights to the package",
)


def what_if(
    source: str | os.PathLike[str],
    *,
    transforms: Sequence[str] = (),
    devices: str | Sequence[str] | Targets = (),
    inputs: Sequence[Mapping[str, Any]] = (),
    samples: int = _SYNTHETIC,
    shapes: Mapping[str, Sequence[Sequence[int]]] | None = None,
    seed: int = 0,
    workers: int | None = None,
    timeout_s: float | None = None,
    has_cache: bool = True,
    random_weights: bool = False,
    progress: Progress | None = None,
) -> VariantReport:
    """Applies transforms of coremltools to a model, and reports what each of them changes.

    Args:
        source: The model: an ML Program in a package, or a neural network.
        transforms: Names of transforms, such as `palettize-4`, `int8`, `prune-50+palettize-4`; none for all
            that suit the model.
        devices: Chips or devices to plan and estimate for: `m1`, `iphone-15-pro`; as `Targets` also with the
            version of their systems and with compute units.
        inputs: Real inputs, a mapping of names to values for each sample; absent values are synthetic.
        samples: Number of synthetic inputs where there are no real ones.
        shapes: Shapes of flexible inputs; the first one of each is predicted with and becomes the fixed one.
        seed: Seed of synthetic inputs.
        workers: Processes that work at the same time; None for as many as the machine's cores and memory
            allow.
        timeout_s: Seconds that one variant may take.
        has_cache: Uses results of earlier calls for the same file, transforms, versions and inputs.
        random_weights: Replaces absent weights of a package by synthetic ones: times and sizes are those of
            the structure, while outputs and weights that values compress say nothing.
        progress: Called whenever a variant is ready.

    Returns:
        The original, and one variant for each transform. One that failed has a sentence.

    Raises:
        ModelError: The model cannot be read, has no weights, or is of a kind that coremltools does not
            transform.
        InputError: A value or a shape is not allowed.
        UsageError: A transform, a device or a setting is unknown.
        KeyboardInterrupt: Ctrl-C before the original was predicted with. Afterwards those variants that are
            missing have a sentence; what was complete is also in the cache.
    """
    with _completed(Path(source), seed, random_weights=random_weights) as path:
        model = container.read(path)
        chosen = _chosen(model, transforms, has_data=bool(inputs))
        targets = Targets.of(devices)
        for name in targets.names:
            find_device(name, targets.os)
        own, findings = use_own()
        with _asked(model, path, inputs, samples, shapes or {}, seed) as (file, question, _):
            study = _Study(
                model=model,
                path=file,
                question=msgspec.structs.replace(
                    question, devices=targets.names, os=targets.os, compute_units=targets.settings, own=own
                ),
                cache=default_cache() if has_cache else None,
                progress=progress or (lambda *_: None),
            )
            count = worker_count(model.size_bytes, machine_memory_bytes(), workers)
            variants = study.run(
                VariantPool(count, ChildLimits(silence_s=_PATIENCE_S, time_s=timeout_s)), chosen
            )
        return VariantReport(
            path=str(source),
            kind=model.kind,
            made=made_here(),
            coremltools=importlib.metadata.version("coremltools"),
            variants=variants,
            findings=(*findings, *([_ON_RANDOM] if random_weights else [])),
        )


def apply_variant(
    source: str | os.PathLike[str],
    transform: str,
    output: str | os.PathLike[str],
    *,
    inputs: Sequence[Mapping[str, Any]] = (),
    samples: int = _SYNTHETIC,
    shapes: Mapping[str, Sequence[Sequence[int]]] | None = None,
    seed: int = 0,
    overwrite: bool = False,
) -> Variant:
    """Applies one transform and writes the model.

    Args:
        source: The model.
        transform: The name of the transform.
        output: The package to write, `.mlpackage`; for a neural network a `.mlmodel` file.
        inputs: Real inputs, for the calibration of activations.
        samples: Number of synthetic inputs where there are no real ones.
        shapes: Shapes of flexible inputs.
        seed: Seed of synthetic inputs.
        overwrite: Replaces an existing model.

    Returns:
        The variant, compared with the original.

    Raises:
        OutputError: The model cannot be written.
        CoremlscopeError: As `what_if`; or the transform failed.
    """
    target = Path(output)
    model = container.read(Path(source))
    (chosen,) = _chosen(model, [transform], has_data=bool(inputs))
    reason = why_not(chosen, model)
    if reason:
        raise UnsupportedModelError(f"{transform} cannot be applied: {reason}", "choose another transform")
    is_network = model.content.is_network
    check_apart(target, source)
    _check_target(target, ".mlmodel" if is_network else ".mlpackage", overwrite=overwrite)
    with _asked(model, Path(source), inputs, samples, shapes or {}, seed) as (path, question, folder):
        made = folder / f"made{target.suffix}"
        job = VariantJob(model=path, is_network=is_network, transform=None, question=question)
        found: list[Variant] = []
        # One process makes them one after the other: the variant is compared with the original.
        jobs = [job, msgspec.structs.replace(job, transform=chosen, target=made)]
        VariantPool(1).make(jobs, lambda _, answer: found.append(_or_raise(answer)))
        if not made.exists():
            raise UnsupportedModelError(found[-1].failure, found[-1].hint)
        if is_network:
            write_file(target, made.read_bytes())
        else:
            with new_folder(target, overwrite=overwrite) as draft:
                shutil.copytree(made, draft, dirs_exist_ok=True)
    return found[-1]


def _or_raise(answer: Variant | CoremlscopeError) -> Variant:
    if isinstance(answer, CoremlscopeError):
        raise answer
    return answer


def _check_target(target: Path, suffix: str, *, overwrite: bool) -> None:
    """Checks in advance that a model can be written.

    Raises:
        OutputError: It cannot.
    """
    if suffix == ".mlmodel":
        if target.suffix != suffix:
            raise OutputError(f"{target} does not end in {suffix}", "neural networks are written as .mlmodel")
        if target.exists() and not overwrite:
            raise OutputError(f"{target} already exists", "choose another name, or use --overwrite")
        check_file(target)
        return
    check_new_folder(
        target, suffix, overwrite=overwrite, what="a package", is_replaceable=lambda path: path.is_dir()
    )


def _chosen(model: Model, names: Sequence[str], *, has_data: bool) -> tuple[Transform, ...]:
    """Returns the transforms that were asked for, or that suit a model.

    Raises:
        ModelError: coremltools cannot transform the model.
        UsageError: A name is unknown.
    """
    if not model.content.functions:
        raise UnsupportedModelError(
            f"coremltools transforms ML Programs and neural networks, not {kind_with_article(model.kind)}",
            "give the programs and networks among its parts one by one"
            if any(stage.model.content.functions for stage in wire(model).stages)
            else "classical models have no variants",
        )
    if model.container == "aimodel":
        raise UnsupportedModelError(
            "coremltools transforms Core ML models, and this is a Core AI model",
            "give the Core ML model, which `coremlscope convert --core-ml` makes of the same program",
        )
    if model.container == "mlmodelc":
        raise UnsupportedModelError(
            "compiled models cannot be transformed",
            "give the .mlpackage or .mlmodel that it was compiled from",
        )
    if len(model.content.functions) > 1:
        raise UnsupportedModelError(
            f"coremltools transforms models of one function, and this one has {len(model.content.functions)}:"
            f" {', '.join(map(shown, model.content.functions))}",
            "give the models that its functions were saved from",
        )
    missing = [file.name for file in model.weight_files if file.size is None]
    if missing:
        raise MissingWeightsError(
            f"weights are transformed, and the file {missing[0]} is missing",
            "add the file to the package, or use --random-weights",
        )
    if names:
        return tuple(parse_transform(name) for name in dict.fromkeys(names))
    return default_transforms(model, has_data=has_data)


@contextmanager
def _completed(source: Path, seed: int, *, random_weights: bool) -> Iterator[Path]:
    """Yields a package with synthetic weights where the model's are absent; other models as they are."""
    model = container.read(source) if random_weights else None
    if (
        model is None
        or model.container != "mlpackage"
        or not any(file.size is None for file in model.weight_files)
    ):
        yield source
        return
    with scratch_folder() as folder:
        path = Path(folder) / source.with_suffix(".mlpackage").name
        write_mlpackage(with_random_weights(model, seed), path)
        yield path


@contextmanager
def _asked(
    model: Model,
    source: Path,
    inputs: Sequence[Mapping[str, Any]],
    samples: int,
    shapes: Mapping[str, Sequence[Sequence[int]]],
    seed: int,
) -> Iterator[tuple[Path, Question, Path]]:
    """Yields the file that coremltools reads, what is asked about its variants, and a private folder."""
    with scratch_folder() as private:
        folder = Path(private)
        known = _shapes(model, shapes)
        values = _samples(model, inputs, samples, {name: each[0] for name, each in known.items()}, seed)
        try:
            write_samples(folder / "samples", values)
            path = with_own_manifest(readable_by_core_ml(source, folder), folder)
        except OSError as error:
            raise temporary_error(error) from error
        yield (
            path,
            Question(
                shapes=known,
                samples=folder / "samples",
                sample_count=len(values),
                synthetic=0 if inputs else len(values),
                outputs=folder / "outputs",
                threads=1,
            ),
            folder,
        )


def with_own_manifest(path: Path, folder: Path) -> Path:
    """Returns a package below a private folder: a copy of the manifest, and links to the other files.

    coremltools replaces the manifest of a package that it opens.
    """
    if not path.is_dir():
        return path

    def link(source: str, target: str) -> None:
        if Path(source).name != MANIFEST:
            with contextlib.suppress(OSError):  # Windows links only for those who may
                Path(target).symlink_to(Path(source).resolve())
                return
        shutil.copyfile(source, target)

    # coremltools opens no path that is not UTF-8.
    copied = folder / "original" / path_text(Path(path.name))
    return Path(shutil.copytree(path, copied, copy_function=link))


def _shapes(
    model: Model, given: Mapping[str, Sequence[Sequence[int]]]
) -> dict[str, tuple[tuple[int, ...], ...]]:
    """Returns the shapes of each flexible input: those that were given, or its default and others it allows.

    Raises:
        InputError: A shape is not allowed.
    """
    described = model.description.main
    chosen = choose_lengths(model, None, {name: each[0] for name, each in given.items() if each})
    bound = bind_shapes(described, chosen)
    found = {}
    for feature in described.inputs:
        type_ = feature.type
        if not isinstance(type_, (ArrayFeature, ImageFeature)) or type_.flexibility is None:
            continue
        if feature.name in bound:
            others = [check_shape(feature, shape) for shape in given.get(feature.name, ())]
            if not others:
                allowed = _allowed(type_.flexibility)
                others = [bound[feature.name], *(check_shape(feature, shape) for shape in allowed)]
            found[feature.name] = tuple(dict.fromkeys(others))
    return found


def _allowed(flexibility: ShapeFlexibility) -> Iterator[tuple[int, ...]]:
    """Yields the shapes of an enumeration, or the ends of a range where both are known."""
    if isinstance(flexibility, EnumeratedShapes):
        yield from flexibility.shapes
    elif all(0 < high <= _LARGEST_EXTENT for _, high in flexibility.bounds):
        yield tuple(max(low, 1) for low, _ in flexibility.bounds)
        yield tuple(high for _, high in flexibility.bounds)


def _samples(
    model: Model,
    inputs: Sequence[Mapping[str, Any]],
    count: int,
    shapes: Mapping[str, tuple[int, ...]],
    seed: int,
) -> list[dict[str, Any]]:
    """Returns the inputs to predict with: real ones, completed by synthetic values, or synthetic ones.

    Raises:
        InputError: A shape is not allowed, or there are too many inputs.
        UsageError: The number of inputs is not positive.
    """
    if not 1 <= count <= _MOST_SAMPLES or len(inputs) > _MOST_SAMPLES:
        raise UsageError(f"the number of inputs must be between 1 and {_MOST_SAMPLES}", "use fewer inputs")
    _, described = interface_of(model, None)
    bodies = bodies_of(model)
    given = inputs or [{}] * count
    return [
        {**dummy_values(described, *bodies, seed=seed + index, shapes=shapes), **values}
        for index, values in enumerate(given)
    ]


class _Study(msgspec.Struct, frozen=True, kw_only=True):
    """Variants that are being made."""

    model: Model
    path: Path
    question: Question
    cache: ArtefactCache | None
    progress: Progress
    keys: dict[str, str] = msgspec.field(default_factory=dict)

    def run(self, pool: VariantPool, transforms: Sequence[Transform]) -> tuple[Variant, ...]:
        """Returns the original and the variants of the transforms."""
        names = {ORIGINAL: None, **{one.name: one for one in transforms}}
        found = {name: known for name, one in names.items() if (known := self._known(name, one)) is not None}
        total = len(names)
        missing = [name for name in names if name not in found]
        self.progress(ORIGINAL, len(found), total)
        if missing:
            # The outputs of the original are not kept, and the variants are compared with them. What is ready
            # is kept when a call is interrupted, so the cheapest come first.
            wanted = sorted(
                (name for name in missing if name != ORIGINAL), key=lambda name: _effort(names[name])
            )
            wanted.insert(0, ORIGINAL)
            try:
                self._make(pool, wanted, names, found, total)
            except KeyboardInterrupt:
                if ORIGINAL not in found:
                    raise
                for name in (name for name in wanted if name not in found):
                    title = one.title if (one := names[name]) else ""
                    why = "interrupted before it was made"
                    found[name] = Variant(name=name, title=title, failure=why, exit_code=INTERRUPTED_EXIT)
        original = found[ORIGINAL]
        return tuple(
            judge_variant(_with_remark(found[name], names[name], original), original) for name in names
        )

    def _make(
        self,
        pool: VariantPool,
        wanted: Sequence[str],
        names: Mapping[str, Transform | None],
        found: dict[str, Variant],
        total: int,
    ) -> None:
        jobs = [
            VariantJob(
                model=self.path,
                is_network=self.model.content.is_network,
                transform=one,
                needs_coremltools=one is not None and needs_coremltools(one, self.model),
                question=self.question,
            )
            for name, one in ((name, names[name]) for name in wanted)
        ]

        def done(index: int, answer: Variant | CoremlscopeError) -> None:
            name = wanted[index]
            if isinstance(answer, Variant):
                self._keep(name, answer)
                found[name] = answer
            else:
                one = names[name]
                if one is None:
                    write_samples(self.question.outputs, ())
                title = one.title if one else "as it is"
                found[name] = Variant(
                    name=name,
                    title=title,
                    failure=answer.message,
                    hint=answer.hint,
                    exit_code=answer.exit_code,
                )
            self.progress(name, len(found), total)

        pool.make(jobs, done)

    def _known(self, name: str, transform: Transform | None) -> Variant | None:
        """Returns a variant that an earlier call made, or one that cannot be made."""
        reason = why_not(transform, self.model) if transform else ""
        if transform and reason:
            code = UnsupportedModelError.exit_code
            return Variant(name=name, title=transform.title, failure=reason, exit_code=code)
        folder = None if self.cache is None else self.cache.find(self._key(name))
        if folder is None:
            return None
        try:
            return decode(msgspec.json.decode((folder / _RESULT).read_bytes()), Variant)
        except (OSError, msgspec.DecodeError, UsageError):
            return None

    def _keep(self, name: str, variant: Variant) -> None:
        if self.cache is None or variant.failure:
            return
        content = msgspec.json.encode(plain(variant))
        with contextlib.suppress(OutputError):  # the next call makes it again
            self.cache.add(
                self._key(name),
                lambda folder: write_draft(folder / _RESULT, content),
                f"what-if {name} of {self.path.name}",
            )

    def _key(self, name: str) -> str:
        """Returns the key of a variant: everything that it depends on, as it was at the first call.

        Later, processes that make variants open the model, and coremltools replaces the manifest of a package
        that it opens.
        """
        assert self.cache is not None
        if name in self.keys:
            return self.keys[name]
        asked = msgspec.structs.replace(self.question, samples=Path(), outputs=Path())
        samples = hashlib.sha256(self.question.samples.read_bytes()).hexdigest()
        own = hashlib.sha256(pickle.dumps(asked.own)).hexdigest()
        shown = repr(msgspec.structs.replace(asked, own=NOTHING_OWN))
        versions = [f"{package} {_version(package)}" for package in _PACKAGES]
        parts = ["variant", name, digest_of_code(), *versions, shown, samples, own]
        self.keys[name] = self.cache.key(self.path, parts)
        return self.keys[name]


def judge_variant(variant: Variant, original: Variant) -> Variant:
    """Returns a variant with the verdict on each device and setting: whether it is faster than the original.

    Args:
        variant: The variant; the original stays as it is.
        original: The original.
    """
    if variant.name == original.name:
        return variant
    names = ORIGINAL, variant.name
    bases = [base.answer for base in original.forecasts]
    pairs: dict[tuple[str, str, str], PairVerdict] = {
        (pair.device, pair.os, pair.before.compute_units): pair
        for pair in compare_answers(bases, [one.answer for one in variant.forecasts], names)
        if pair.before is not None and not pair.is_best
    }
    forecasts = tuple(msgspec.structs.replace(one, verdict=pairs.get(one.key)) for one in variant.forecasts)
    return msgspec.structs.replace(variant, forecasts=forecasts)


def _with_remark(variant: Variant, transform: Transform | None, original: Variant) -> Variant:
    """Returns a variant as one that was not made if it has the weights of the original."""
    is_compression = transform is not None and transform.has("palettize", "quantize", "prune")
    known = (original.weights_bytes, original.storage)
    if not is_compression or variant.failure or (variant.weights_bytes, variant.storage) != known:
        return variant
    return without_change(variant)


def _effort(transform: Transform | None) -> int:
    """Returns how long a transform takes, relative to others: clustering, for each entry of a table."""
    return sum(1 << step.bits for step in transform.steps if step.kind == "palettize") if transform else 0


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
