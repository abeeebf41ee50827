"""Applies transforms, by coremltools' own functions where these do more than compress weights.

coremltools is imported when a step asks for a model in its form.
"""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from coremlscope.base.errors import MissingDependencyError, UnsupportedModelError, how_to_install
from coremlscope.formats import container
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.model.ir import Model
from coremlscope.planning.advice import bind_default_function, find_needless_outputs
from coremlscope.planning.rewrites.clips import with_clips
from coremlscope.planning.rewrites.moves import with_joined_reshapes
from coremlscope.planning.rewrites.pictures import Pictures, with_image_inputs
from coremlscope.planning.rewrites.table import REWRITES
from coremlscope.planning.rewrites.transforms import Step, Transform
from coremlscope.studies.variants.compression import (
    IOS_16,
    IOS_18,
    LEAST_WEIGHT,
    compress,
    is_compressible,
    least_palettized,
    needs_scikit_learn,
    palettizing_remarks,
)
from coremlscope.studies.variants.half_precision import can_be_halved, with_half_precision

#: In the order of coremltools' own pipelines; what they remove becomes dead code.
_TIDYING = (
    *("fuse_gelu_exact", "fuse_gelu_tanh_approximation", "cast_optimization", "noop_elimination"),
    *("merge_consecutive_transposes", "reduce_transposes", "merge_consecutive_reshapes"),
    *("remove_redundant_ops", "const_deduplication", "dead_code_elimination"),
)
_COMPRESSING = ("palettize", "quantize", "prune")
#: What other variants begin with, too, and how many models are kept for them.
_BEGINNINGS, _MOST_SHARED = ("fp16", "palettize", "prune"), 2


def require_coremltools() -> None:
    """Checks that coremltools is installed; it is not imported.

    Raises:
        MissingDependencyError: It is not.
    """
    if importlib.util.find_spec("coremltools") is None:
        raise MissingDependencyError(
            "it is made by coremltools, which is not installed", how_to_install("coreml")
        )


def open_for_coremltools(path: Path) -> Any:
    """Opens a model with coremltools, without loading it into Core ML."""
    import coremltools as ct

    return ct.models.MLModel(str(path), skip_model_load=True)


@dataclass(slots=True, kw_only=True)
class Opened:
    """A model while it is transformed: a file, or a model in coremltools' form.

    Attributes:
        path: The file of the model before any step.
        file: The file of the model as it is now.
        made: coremltools' model, where the steps since that file made one.
        shapes: Shapes of flexible inputs, the default one first.
        samples: Inputs from which activations are calibrated.
        folder: A private folder for files.
        opening: Opens a file with coremltools.
        notes: Remarks on what was done.
        pictures: The inputs that became images.
        shared: Results of first steps that other variants of the same model begin with, too.
        applied: The file, and the steps so far.
    """

    path: Path
    file: Path
    made: Any = None
    shapes: Mapping[str, Sequence[tuple[int, ...]]]
    samples: Sequence[Mapping[str, Any]]
    folder: Path
    opening: Callable[[Path], Any] = open_for_coremltools
    notes: list[str] = field(default_factory=list)
    pictures: Pictures | None = None
    shared: SharedSteps | None = None
    applied: tuple[Hashable, ...] = ()

    @property
    def model(self) -> Any:
        """coremltools' `MLModel`."""
        if self.made is None:
            self.made = self.opening(self.file)
        return self.made

    @model.setter
    def model(self, made: Any) -> None:
        self.made = made

    @property
    def program(self) -> Model:
        """The model as it is now, in our own form."""
        if self.made is not None:
            self.file = self.new_file()
            self.made.save(str(self.file))
            self.made = None
        return container.read(self.file)

    @program.setter
    def program(self, model: Model) -> None:
        self.file, self.made = self.new_file(), None
        write_mlpackage(model, self.file)

    def new_file(self) -> Path:
        """Returns the path of a package that is not there yet."""
        return Path(tempfile.mkdtemp(dir=self.folder)) / "made.mlpackage"

    @property
    def is_network(self) -> bool:
        """True for a neural network."""
        return str(self.model.get_spec().WhichOneof("Type")).startswith("neuralNetwork")

    @property
    def specification(self) -> int:
        """The version of the model's specification."""
        return int(self.model.get_spec().specificationVersion)

    def raise_to(self, specification: int) -> None:
        """Makes a program one of a newer operation set."""
        if self.specification >= specification:
            return
        self.apply(specification, lambda: self._raise_to(specification))

    def _raise_to(self, specification: int) -> None:
        from coremltools.models.utils import _apply_graph_pass

        self.model = _apply_graph_pass(self.model, [], spec_version=specification, skip_model_load=True)

    def declare(self, specification: int) -> None:
        """Has the next pass of coremltools read a program as one of a newer operation set, without one."""
        if self.specification < specification:
            self.apply(f"declared {specification}", lambda: self._declare(specification))

    def _declare(self, specification: int) -> None:
        import coremltools as ct

        spec, weights = self.model.get_spec(), self.model.weights_dir
        spec.specificationVersion = specification
        self.model = ct.models.MLModel(spec, weights_dir=weights, skip_model_load=True)

    def apply(self, step: Hashable, change: Callable[[], None]) -> None:
        """Applies a step, or takes the result of the same steps of another variant."""
        applied = (*self.applied, step)
        known = None if self.shared is None else self.shared.find(applied)
        if known is not None:
            self.model, self.notes = known[0], list(known[1])
        else:
            change()
            if self.shared is not None and self.made is not None:
                self.shared.keep(applied, self.made, self.notes)
        self.applied = applied


class SharedSteps:
    """Models after the first steps of variants of one model, so that others continue from there."""

    def __init__(self) -> None:
        self._known: dict[tuple[Hashable, ...], tuple[Any, tuple[str, ...]]] = {}

    def find(self, applied: tuple[Hashable, ...]) -> tuple[Any, tuple[str, ...]] | None:
        """Returns coremltools' model after some steps, and the remarks on them; None if it is not known."""
        found = self._known.pop(applied, None)
        if found is not None:
            self._known[applied] = found  # the last one that was used goes last
        return found

    def keep(self, applied: tuple[Hashable, ...], model: Any, notes: Sequence[str]) -> None:
        """Keeps a model after its first steps."""
        if all(_is_shared(step) for step in applied):
            self._known[applied] = (model, tuple(notes))
            while len(self._known) > _MOST_SHARED:
                del self._known[next(iter(self._known))]


def _is_shared(step: Hashable) -> bool:
    """Returns whether other variants may begin with a step, and its result depends on nothing else."""
    return isinstance(step, (int, str, Path)) or (isinstance(step, Step) and step.kind in _BEGINNINGS)


def transform_file(
    source: Path,
    transform: Transform,
    target: Path,
    *,
    shapes: Mapping[str, Sequence[tuple[int, ...]]],
    samples: Sequence[Mapping[str, Any]],
    folder: Path,
    shared: SharedSteps | None = None,
    opening: Callable[[Path], Any] = open_for_coremltools,
) -> tuple[Sequence[str], Pictures | None]:
    """Applies a transform to a model in a file, and writes the result; nothing where no weight is compressed.

    Args:
        source: The file, as coremltools reads it.
        transform: The transform.
        target: The file to write.
        shapes: Shapes of flexible inputs, the default one first.
        samples: Inputs from which activations are calibrated.
        folder: A private folder for files.
        shared: Results of first steps of other variants of this model.
        opening: Opens a file with coremltools, where it is needed.

    Returns:
        Remarks on what was done, and the inputs that became images.

    Raises:
        UnsupportedModelError: The model has nothing that a step could change.
        MissingDependencyError: A step needs a package that is not installed.
    """
    opened = Opened(
        path=source,
        file=source,
        shapes=shapes,
        samples=samples,
        folder=folder,
        opening=opening,
        shared=shared,
        applied=(source,),
    )
    apply_transform(opened, transform)
    save(opened, target)
    return opened.notes, opened.pictures


def needs_coremltools(transform: Transform, model: Model) -> bool:
    """Returns whether coremltools applies a transform to a model; others are applied here."""
    is_raised = model.spec_version < IOS_16
    own = {"image-inputs", *REWRITES} - ({"fp16-io"} if is_raised else set())
    own |= {"fp16"} if can_be_halved(model) else set()
    compressing = _compressing(transform)
    rest = [step for step in transform.steps if step.kind not in own and step not in compressing]
    return bool(rest) or (bool(compressing) and not is_compressible(model, compressing))


def _compressing(transform: Transform) -> tuple[Step, ...]:
    """Returns the steps that compress weights, where they follow each other."""
    steps = tuple(step for step in transform.steps if step.kind in _COMPRESSING)
    first = transform.steps.index(steps[0]) if steps else 0
    return steps if transform.steps[first : first + len(steps)] == steps else ()


def apply_transform(opened: Opened, transform: Transform) -> None:
    """Applies the steps of a transform.

    Raises:
        UnsupportedModelError: The model has nothing that a step could change.
        MissingDependencyError: A step needs a package that is not installed.
    """
    compressing = _compressing(transform)
    is_own = bool(compressing) and is_compressible(opened.program, compressing)
    if not is_own and sum(step.kind in _COMPRESSING for step in transform.steps) > 1:
        opened.declare(IOS_18)
    own, pending, is_second = compressing if is_own else (), list(transform.steps), False
    while pending:
        step = pending[0]
        if step in own:
            program = opened.program
            made = compress(program, own)
            if made is not None:
                if made[0] is not program:
                    opened.program = made[0]
                opened.notes += made[1]
                opened.applied = (*opened.applied, *own)
                del pending[: len(own)]
                continue
            if len(own) > 1:
                opened.declare(IOS_18)
            own = ()
        del pending[0]
        change = partial(_STEPS[step.kind], opened, step, is_second)
        if pending:
            opened.apply(step, change)
        else:
            change()
        is_second = is_second or step.kind in _COMPRESSING


def _compute_in_fp16(opened: Opened, step: Step, joint: bool) -> None:
    program = opened.program
    if can_be_halved(program):
        opened.program = with_half_precision(program)
        return
    if program.content.is_network:
        _quantize_network(opened, 16, "linear")
        return
    from coremltools.converters.mil.mil.passes.defs.quantization import add_fp16_cast

    # The pass asks every argument for its element type, and lists, such as the labels of classes, have none.
    _run_passes(
        opened,
        (
            add_fp16_cast(op_selector=_reads_no_list),
            "cast_optimization",
            "const_elimination",
            "dead_code_elimination",
        ),
    )


def _reads_no_list(op: Any) -> bool:
    from coremltools.converters.mil.mil.var import ListVar

    given = (one for value in op.inputs.values() for one in (value if isinstance(value, tuple) else (value,)))
    return not any(isinstance(one, ListVar) for one in given)


def _exchange_in_fp16(opened: Opened, step: Step, joint: bool) -> None:
    if opened.program.spec_version < IOS_16:
        opened.raise_to(IOS_16)
    _rewrite(opened, step, joint)


def _raise_target(opened: Opened, step: Step, joint: bool) -> None:
    from coremltools import target

    opened.raise_to(int(getattr(target, f"iOS{step.bits}")))


def _palettize(opened: Opened, step: Step, joint: bool) -> None:
    if opened.is_network:
        _quantize_network(opened, step.bits, "kmeans_lut")
        return
    import coremltools.optimize.coreml as cto

    if step.group or step.bits == 3:
        opened.declare(IOS_18)
    grouped: dict[str, Any] = {}
    if step.group:
        grouped = {"granularity": "per_grouped_channel", "group_size": step.group}
    opened.notes += palettizing_remarks(step)
    least = least_palettized()
    config = cto.OpPalettizerConfig(nbits=step.bits, mode="kmeans", weight_threshold=least, **grouped)
    try:
        opened.model = cto.palettize_weights(
            opened.model, cto.OptimizationConfig(global_config=config), joint_compression=joint
        )
    except ModuleNotFoundError as error:
        raise needs_scikit_learn("tables for float32 weights") from error


def _quantize(opened: Opened, step: Step, joint: bool) -> None:
    if opened.is_network:
        _quantize_network(opened, step.bits, "linear")
        return
    import coremltools.optimize.coreml as cto

    if step.bits < 8 or step.group:
        opened.declare(IOS_18)
    granularity = "per_block" if step.group else "per_tensor" if step.per_tensor else "per_channel"
    blocks = {"block_size": step.group} if step.group else {}
    config = cto.OpLinearQuantizerConfig(
        mode="linear_symmetric", dtype=f"int{step.bits}", granularity=granularity, **blocks
    )
    opened.model = cto.linear_quantize_weights(
        opened.model, cto.OptimizationConfig(global_config=config), joint_compression=joint
    )


def _prune(opened: Opened, step: Step, joint: bool) -> None:
    import coremltools.optimize.coreml as cto

    config = cto.OpMagnitudePrunerConfig(target_sparsity=step.percent / 100)
    opened.model = cto.prune_weights(
        opened.model, cto.OptimizationConfig(global_config=config), joint_compression=joint
    )


def _quantize_activations(opened: Opened, step: Step, joint: bool) -> None:
    import coremltools as ct
    import coremltools.optimize.coreml as cto

    from coremlscope.dropin import install

    install()  # coremltools predicts to learn the ranges of activations
    path = opened.folder / "calibrated.mlpackage"
    opened.model.save(str(path))
    loaded = ct.models.MLModel(str(path), compute_units=ct.ComputeUnit.CPU_ONLY)
    config = cto.OptimizationConfig(global_config=cto.OpLinearQuantizerConfig(mode="linear_symmetric"))
    calibrated = cto.linear_quantize_activations(loaded, config, [dict(sample) for sample in opened.samples])
    opened.model = cto.linear_quantize_weights(calibrated, config)
    opened.notes.append(f"activations calibrated on {len(opened.samples)} of the inputs")


def _fix_shapes(opened: Opened, step: Step, joint: bool) -> None:
    """Fixes the shapes of flexible inputs. coremltools takes no images, so they are arrays for a while."""
    import coremltools as ct

    path = opened.folder / "static.mlpackage"
    fixed = {name: shapes[0] for name, shapes in opened.shapes.items()}
    spec = opened.model.get_spec()
    images = _images_as_arrays(spec)
    flexible = opened.model
    if images:
        flexible = ct.models.MLModel(spec, weights_dir=opened.model.weights_dir, skip_model_load=True)
    ct.utils.materialize_dynamic_shape_mlmodel(flexible, {"main": fixed}, str(path))
    opened.model = ct.models.MLModel(str(path), skip_model_load=True)
    if images:
        spec = opened.model.get_spec()
        _restore_images(spec, images, container.read(path))
        opened.model = ct.models.MLModel(spec, weights_dir=opened.model.weights_dir, skip_model_load=True)
    opened.notes.append("fixed shapes: " + _listed({name: [shape] for name, shape in fixed.items()}))


def _images_as_arrays(spec: Any) -> dict[str, Any]:
    """Describes images as arrays, and returns them as they were, by name."""
    from coremltools.proto.FeatureTypes_pb2 import ArrayFeatureType, FeatureType

    images = {}
    for feature in (*spec.description.input, *spec.description.output):
        if feature.type.WhichOneof("Type") == "imageType":
            images[feature.name] = FeatureType.FromString(feature.type.SerializeToString())
            half = feature.type.imageType.colorSpace == feature.type.imageType.GRAYSCALE_FLOAT16
            feature.type.multiArrayType.dataType = (
                ArrayFeatureType.FLOAT16 if half else ArrayFeatureType.FLOAT32
            )
    return images


def _restore_images(spec: Any, images: Mapping[str, Any], model: Model) -> None:
    """Describes arrays as the images that they were, with the one size that they have in a program."""
    function = bind_default_function(model).bound
    values = (*function.function.graph.inputs, *function.function.graph.outputs)
    known = (*function.graph.inputs, *function.graph.outputs)
    types: dict[str, Any] = {value.name: one.type for value, one in zip(values, known, strict=True)}
    for feature in (*spec.description.input, *spec.description.output):
        if feature.name in images:
            feature.type.CopyFrom(images[feature.name])
            image = feature.type.imageType
            image.height, image.width = types[feature.name].shape[-2:]
            image.ClearField("enumeratedSizes")
            image.ClearField("imageSizeRange")


def _enumerate_shapes(opened: Opened, step: Step, joint: bool) -> None:
    import coremltools as ct

    spec = opened.model.get_spec()
    arrays = {f.name for f in spec.description.input if f.type.WhichOneof("Type") == "multiArrayType"}
    several = {name: shapes for name, shapes in opened.shapes.items() if name in arrays and len(shapes) > 1}
    if not several:
        raise UnsupportedModelError(
            "there are no shapes to enumerate", "give each shape: --shape NAME=1x3x224x224 (repeatable)"
        )
    for feature in spec.description.input:
        if feature.name in several:
            array = feature.type.multiArrayType
            array.ClearField("shape")
            array.shape.extend(several[feature.name][0])
            array.ClearField("shapeRange")
            array.ClearField("enumeratedShapes")
            for shape in several[feature.name]:
                array.enumeratedShapes.shapes.add().shape.extend(shape)
    weights = opened.model.weights_dir
    opened.model = ct.models.MLModel(spec, weights_dir=weights, skip_model_load=True)
    opened.notes.append("enumerated shapes: " + _listed(several))


def _tidy(opened: Opened, step: Step, joint: bool) -> None:
    """Applies the passes that coremltools itself applies when it converts, and that change no result.

    They join operations of the type `reshape` only; chains with others are joined here.
    """
    _run_passes(opened, _TIDYING)
    model, count = with_joined_reshapes(opened.program)
    if count:
        opened.program = model


def _run_passes(opened: Opened, steps: Sequence[Any]) -> None:
    """Runs graph passes of coremltools, which are given by name or as passes."""
    from coremltools.converters.mil.mil.passes.pass_registry import PASS_REGISTRY
    from coremltools.models.utils import _apply_graph_pass

    passes = [PASS_REGISTRY[f"common::{step}"] if isinstance(step, str) else step for step in steps]
    opened.model = _apply_graph_pass(
        opened.model, passes, spec_version=opened.specification, skip_model_load=True
    )


def _palettize_unique(opened: Opened, step: Step, joint: bool) -> None:
    import coremltools.optimize.coreml as cto

    config = cto.OpPalettizerConfig(mode="unique", weight_threshold=LEAST_WEIGHT)
    opened.model = cto.palettize_weights(opened.model, cto.OptimizationConfig(global_config=config))


def _drop_needless_outputs(opened: Opened, step: Step, joint: bool) -> None:
    import coremltools as ct

    names = set(find_needless_outputs(bind_default_function(container.read(opened.path))))
    spec = opened.model.get_spec()
    kept = [feature for feature in spec.description.output if feature.name not in names]
    if not kept or len(kept) == len(spec.description.output):
        raise UnsupportedModelError(
            "no output can be left out", "a model needs one output that is neither an input nor a constant"
        )
    for block in spec.mlProgram.functions["main"].block_specializations.values():
        block.outputs[:] = [name for name in block.outputs if name not in names]
    copies = [feature.SerializeToString() for feature in kept]
    spec.description.ClearField("output")
    for content in copies:
        spec.description.output.add().ParseFromString(content)
    opened.model = ct.models.MLModel(spec, weights_dir=opened.model.weights_dir, skip_model_load=True)
    _run_passes(opened, ("dead_code_elimination",))
    opened.notes.append("without the outputs " + ", ".join(sorted(names)))


def _take_images(opened: Opened, step: Step, joint: bool) -> None:
    opened.program, pictures = with_image_inputs(opened.program, step.scaling or None)
    opened.pictures = pictures
    names = ", ".join(feature.name for feature in pictures.features)
    opened.notes.append(f"{names}: {step.title}; outputs are compared on drawn pixels")


def _rewrite(opened: Opened, step: Step, joint: bool) -> None:
    model, count = REWRITES[step.kind](opened.program)
    _note_count(opened, step, count)
    opened.program = model


def _clip(opened: Opened, step: Step, joint: bool) -> None:
    import coremltools as ct

    spec, count = with_clips(opened.model.get_spec().SerializeToString())
    _note_count(opened, step, count)
    opened.model = ct.models.MLModel(ct.proto.Model_pb2.Model.FromString(spec), skip_model_load=True)


def _note_count(opened: Opened, step: Step, count: int) -> None:
    if not count:
        raise UnsupportedModelError(
            f"the model has nothing to change ({step.title})", "see `coremlscope inspect` for findings"
        )
    opened.notes.append(f"{step.title}: {count}")


def _listed(shapes: Mapping[str, Sequence[tuple[int, ...]]]) -> str:
    return "; ".join(
        f"{name} {', '.join('×'.join(map(str, shape)) for shape in known)}" for name, known in shapes.items()
    )


def _quantize_network(opened: Opened, bits: int, mode: str) -> None:
    from unittest.mock import patch

    from coremltools.models.neural_network import quantization_utils

    from coremlscope.dropin import install

    install()  # without Core ML coremltools returns a specification instead of a model
    try:
        opened.model = quantization_utils.quantize_weights(opened.model, bits, mode)
    except TypeError:
        # coremltools 9.0 multiplies weights of a convolution by a column of factors when it folds a norm into
        # it (`optimization_utils._conv_bn_fusion`), and cannot store the square matrix.
        with patch.object(quantization_utils, "_optimize_nn", lambda _layers: None):
            opened.model = quantization_utils.quantize_weights(opened.model, bits, mode)
        opened.notes.append(
            "batch normalizations are as before: coremltools fails to fold them into convolutions"
        )
    except (ImportError, ModuleNotFoundError) as error:
        raise needs_scikit_learn("tables for the weights of neural networks") from error


_STEPS: Mapping[str, Callable[[Opened, Step, bool], None]] = {
    "fp16": _compute_in_fp16,
    "target": _raise_target,
    "palettize": _palettize,
    "quantize": _quantize,
    "prune": _prune,
    "w8a8": _quantize_activations,
    "static": _fix_shapes,
    "enumerated": _enumerate_shapes,
    "without-needless-outputs": _drop_needless_outputs,
    "palettize-unique": _palettize_unique,
    "tidy": _tidy,
    "image-inputs": _take_images,
    "relu6": _clip,
    **dict.fromkeys(REWRITES, _rewrite),
    "fp16-io": _exchange_in_fp16,
}


def save(opened: Opened, target: Path) -> None:
    """Saves a model below a private folder, in place of an earlier one; one without a change is not saved."""
    shutil.rmtree(target, ignore_errors=True)
    if opened.made is not None:
        opened.made.save(str(target))
    elif opened.file != opened.path:
        shutil.move(opened.file, target)
