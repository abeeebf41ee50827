"""What a model shows as a whole: Core ML's rules about interfaces, by its published validators and public
reports, and values that an app cannot use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from coremlscope.model import schema
from coremlscope.model.features import describe_feature, describe_shape
from coremlscope.model.ir import (
    Argument,
    ArrayFeature,
    DictionaryFeature,
    DoubleFeature,
    DType,
    EnumeratedShapes,
    Feature,
    FeatureType,
    FunctionDescription,
    ImageFeature,
    Int64Feature,
    ListType,
    Model,
    RangeShapes,
    SequenceFeature,
    StateFeature,
    StringFeature,
    TensorType,
)
from coremlscope.planning.hazards.hazard import KnownHazard

_VALIDATORS = "https://github.com/apple/coremltools/blob/main/mlmodel/src/Validation"
_INTERFACE = f"{_VALIDATORS}/InterfaceValidators.cpp"
_NETWORK = f"{_VALIDATORS}/NeuralNetwork/NeuralNetworkValidator.cpp"
#: Specification versions: iOS 12, 14, 16 and 18.
_IOS_12, _IOS_14, _IOS_16, _IOS_18 = 3, 5, 7, 9
#: The number of the first layer type of iOS 13 in the format.
_FIRST_OF_IOS_13 = 600
#: Of a tensor.
_MOST_DIMENSIONS = 5
_NETWORKS = ("neuralNetwork", "neuralNetworkClassifier", "neuralNetworkRegressor")


def _features(model: Model) -> Iterator[Feature]:
    for interface in model.description.functions.values():
        yield from chain(interface.inputs, interface.outputs, interface.states)


# Shapes and element types


def _flexible_shapes(model: Model) -> Iterator[str]:
    if model.spec_version < _IOS_12:
        return
    for feature in _features(model):
        type_ = feature.type.array if isinstance(feature.type, StateFeature) else feature.type
        if isinstance(type_, ArrayFeature):
            shape = type_.shape
        elif isinstance(type_, ImageFeature) and type_.width > 0 and type_.height > 0:
            shape = (type_.height, type_.width)
        else:
            continue
        match type_.flexibility:
            case EnumeratedShapes(shapes) if not shapes:
                yield f"{feature.name!r} enumerates no shape"
            case EnumeratedShapes(shapes) if shape and shape not in shapes:
                yield f"the default shape {describe_shape(shape)} of {feature.name!r} is not an allowed one"
            case RangeShapes(bounds):
                yield from _ranges(feature.name, shape, bounds)


def _flexible_states(model: Model) -> Iterator[str]:
    interface = model.description.main
    for feature in interface.states:
        type_ = feature.type.array if isinstance(feature.type, StateFeature) else feature.type
        if isinstance(type_, ArrayFeature) and type_.flexibility is not None:
            yield f"the state {feature.name!r} has a flexible shape"
    arrays = [feature for feature in interface.inputs if isinstance(feature.type, ArrayFeature)]
    ranged = {
        feature.name
        for feature in arrays
        if isinstance(feature.type, ArrayFeature) and isinstance(feature.type.flexibility, RangeShapes)
    }
    fixed = [feature.name for feature in arrays if feature.name not in ranged]
    if interface.states and ranged and fixed:
        yield (
            f"it has a state, and next to the range of shapes of {min(ranged)!r} the input {fixed[0]!r} has"
            " none, which counts as an enumerated shape: loading it ended the app"
        )


def _ranges(name: str, shape: Sequence[int], bounds: Sequence[tuple[int, int]]) -> Iterator[str]:
    empty = next(((low, high) for low, high in bounds if 0 < high < low), None)
    if empty is not None:
        yield f"{name!r} has a range from {empty[0]} to {empty[1]}"
    elif shape and len(shape) != len(bounds):
        yield f"{name!r} has a default shape of {len(shape)} dimensions, but ranges of {len(bounds)}"
    elif any(size < low or 0 <= high < size for size, (low, high) in zip(shape, bounds, strict=False)):
        yield f"the default shape {describe_shape(shape)} of {name!r} is outside of its ranges"


def _newer_types(model: Model) -> Iterator[str]:
    version = max(model.spec_version, 1)
    for feature in _features(model):
        type_ = feature.type.array if isinstance(feature.type, StateFeature) else feature.type
        needed, what = 1, ""
        match type_:
            case ArrayFeature(dtype=DType.FP16):
                needed, what = _IOS_16, "elements of float16"
            case ImageFeature(color_space="GRAYSCALE_FLOAT16"):
                needed, what = _IOS_16, "the color space GRAYSCALE_FLOAT16"
            case SequenceFeature():
                needed, what = _IOS_12, "the type sequence"
        if isinstance(feature.type, StateFeature) and needed < _IOS_18:
            needed, what = _IOS_18, "the type state"
        if version < needed:
            yield f"{feature.name!r} has {what}, for which version {needed} of the specification is needed"


# Results


def _ranks(model: Model) -> Iterator[str]:
    for function in model.content.functions.values():
        # Only what the file itself names: operations that stand for a layer here may have more dimensions.
        layers = {name for layer in function.layers for name in layer.outputs}
        for op in function.graph.walk():
            for result in op.outputs:
                type_ = result.type
                is_own = result.name in layers if model.content.is_network else _is_computed(op.type)
                if is_own and isinstance(type_, TensorType) and len(type_.shape or ()) > _MOST_DIMENSIONS:
                    yield f"{result.name!r} of a {op.type} has {len(type_.shape or ())} dimensions"
                    return


def _is_computed(op_type: str) -> bool:
    return op_type != "const" and not op_type.startswith("constexpr")


def _image_channels(model: Model) -> Iterator[str]:
    for name, interface in model.description.functions.items() if model.content.is_typed else ():
        function = model.content.functions.get(name)
        results = {} if function is None else {one.name: one.type for one in function.graph.outputs}
        for feature in interface.outputs:
            type_ = results.get(feature.name)
            if not isinstance(feature.type, ImageFeature) or not isinstance(type_, TensorType):
                continue
            shape = type_.shape
            channels = 3 if feature.type.color_space in ("RGB", "BGR") else 1
            if shape is not None and (len(shape) != 4 or shape[1] not in (channels, None)):
                yield (
                    f"the image {feature.name!r} ({feature.type.color_space}) needs 1x{channels}xHxW, but its"
                    f" tensor is {describe_shape(shape)}"
                )


# Classifiers and regressors


def _classified_batches(model: Model) -> Iterator[str]:
    functions = model.content.functions.values() if model.content.is_typed else ()
    for op in (op for function in functions for op in function.graph.walk() if op.type == "classify"):
        given = next(iter(op.inputs.get("probabilities", ())), None)
        type_ = None if given is None else given.type
        if not isinstance(type_, TensorType):
            continue
        count = _classes(next(iter(op.inputs.get("classes", ())), None))
        if not type_.is_static:
            yield "the shape of a classifier's probabilities is not fixed"
        elif count is not None and type_.elements != count:
            yield f"a classifier has {type_.elements} probabilities for {count} classes"


def _classes(argument: Argument | None) -> int | None:
    match None if argument is None else argument.type:
        case ListType(length=length):
            return length
        case TensorType() as tensor:
            return tensor.elements
    return None


def _predicted_features(model: Model) -> Iterator[str]:
    kind, interface = model.kind, model.description.main
    is_classifier = kind.endswith("Classifier") and kind not in ("pipelineClassifier", "textClassifier")
    if not is_classifier and not (kind.endswith("Regressor") and kind != "pipelineRegressor"):
        return
    what = "classifier" if is_classifier else "regressor"
    allowed = (Int64Feature, StringFeature) if is_classifier else (DoubleFeature, ArrayFeature)
    yield from _predicted(interface, what, interface.predicted_feature, allowed)
    if is_classifier and interface.predicted_probabilities:
        types = (ArrayFeature, DictionaryFeature)
        yield from _predicted(interface, what, interface.predicted_probabilities, types)


def _predicted(
    interface: FunctionDescription, what: str, name: str, allowed: tuple[type, ...]
) -> Iterator[str]:
    found = next((feature.type for feature in interface.outputs if feature.name == name), None)
    if not name:
        yield f"the {what} does not name its predicted feature"
    elif found is None:
        yield f"the {what} predicts {name!r}, which is not one of its outputs"
    elif not isinstance(found, allowed):
        yield f"the {what} predicts {name!r}, which is of the type {describe_feature(found)}"


# Neural networks


def _network_inputs(model: Model) -> Iterator[str]:
    if not model.content.is_network:
        return
    inputs = model.description.main.inputs
    if inputs and all(feature.is_optional for feature in inputs):
        yield "every input of the neural network is optional"
    arrays = [(feature.name, feature.type) for feature in inputs if isinstance(feature.type, ArrayFeature)]
    legacy = [(name, type_) for name, type_ in arrays if type_.takes_sequences]
    newer = _newer_layers(model)
    if legacy and newer:
        yield (
            f"the layer type {newer[0]!r} is of iOS 13, but arrays are mapped to five dimensions"
            " (arrayInputShapeMapping)"
        )
        return
    for name, type_ in legacy:
        ranks = {len(shape) for shape in _shapes(type_)}
        if ranks and not ranks & {1, 3}:
            yield f"the array {name!r} has {min(ranks)} dimensions, not 1 or 3"


def _shapes(type_: ArrayFeature) -> Iterator[Sequence[object]]:
    if type_.shape:
        yield type_.shape
    match type_.flexibility:
        case EnumeratedShapes(shapes):
            yield from shapes
        case RangeShapes(bounds):
            yield bounds


def _newer_layers(model: Model) -> list[str]:
    fields = schema.message_class("NeuralNetworkLayer").DESCRIPTOR.fields_by_name
    types = dict.fromkeys(layer.type for one in model.content.functions.values() for layer in one.layers)
    return [name for name in types if name in fields and fields[name].number >= _FIRST_OF_IOS_13]


# Pictures


def _dark_pictures(model: Model) -> Iterator[str]:
    from coremlscope.describe.pictures import describe_dark_pictures

    yield from describe_dark_pictures(model)


# Non-maximum suppression


def _suppression(model: Model) -> Iterator[str]:
    from coremlscope.ops.classical.suppression import NonMaximumSuppression

    content = model.content
    if not isinstance(content, NonMaximumSuppression):
        return
    interface = model.description.main
    given = {feature.name: feature.type for feature in chain(interface.inputs, interface.outputs)}
    names = (
        content.confidence,
        content.coordinates,
        content.confidence_output,
        content.coordinates_output,
    )
    types = [given[name] for name in names if name in given]
    found = {type_.dtype for type_ in types if isinstance(type_, ArrayFeature)}
    allowed = [DType.FP64, *([DType.FP32] if model.spec_version >= _IOS_14 else [])]
    listed = " and ".join(dtype.numpy.name for dtype in sorted(found, key=lambda dtype: dtype.value))
    if found - set(allowed):
        only = " or ".join(dtype.numpy.name for dtype in allowed)
        yield f"non-maximum suppression takes and gives {only}, not {listed}"
    elif len(found) > 1:
        yield f"non-maximum suppression has values of {listed}, which must be of one type"


# Pipelines


def _passed_values(model: Model) -> Iterator[str]:
    interface = model.description.main
    known = {feature.name: feature.type for feature in interface.inputs}
    for number, stage in enumerate(model.content.models):
        inner = stage.description.main
        for feature in inner.inputs:
            yield from _passed(f"the input {feature.name!r} of stage {number}", feature, known)
        known |= {feature.name: feature.type for feature in inner.outputs}
    for feature in interface.outputs if model.content.models else ():
        yield from _passed(f"the output {feature.name!r}", feature, known)


def _passed(what: str, feature: Feature, known: dict[str, FeatureType]) -> Iterator[str]:
    source = known.get(feature.name)
    if source is not None and not _is_equivalent(source, feature.type):
        yield f"{what} is of the type {describe_feature(feature.type)}, but gets {describe_feature(source)}"


def _is_equivalent(a: FeatureType, b: FeatureType) -> bool:
    """Compares types as `Comparison.cpp` next to the validators does; an array without a shape fits any."""
    match a, b:
        case ArrayFeature(), ArrayFeature():
            is_fixed = a.flexibility is None and b.flexibility is None
            return a.dtype == b.dtype and (not is_fixed or not a.shape or not b.shape or a.shape == b.shape)
        case ImageFeature(), ImageFeature():
            return (a.width, a.height, a.color_space) == (b.width, b.height, b.color_space)
        case DictionaryFeature(), DictionaryFeature():
            return a.key == b.key
        case SequenceFeature(), SequenceFeature():
            return a.element == b.element
    return type(a) is type(b)


HAZARDS: tuple[KnownHazard, ...] = (
    KnownHazard(
        id="refused-flexible-shape",
        kind="refused",
        phase="load",
        check=_flexible_shapes,
        fix="make the default shape one of the allowed shapes",
        source=_INTERFACE,
        confidence="documented",
    ),
    KnownHazard(
        id="refused-flexible-state",
        kind="refused",
        phase="load",
        check=_flexible_states,
        fix="give states a fixed shape, and give all inputs of a model with states a range"
        " (ct.RangeDim(n, n + 1) for a fixed one), or none",
        source="https://github.com/apple/coremltools/issues/2537, https://github.com/apple/coremltools/issues/2548",
        confidence="measured",
    ),
    KnownHazard(
        id="refused-rank",
        kind="refused",
        phase="load",
        check=_ranks,
        fix="keep to five dimensions: merge some before the operation, and split them again behind it",
        source="https://github.com/apple/coremltools/issues/1723",
        confidence="measured",
    ),
    KnownHazard(
        id="refused-image-output",
        kind="refused",
        phase="load",
        check=_image_channels,
        fix="give the output as many channels as its color space has, or declare it as a tensor",
        source="https://github.com/apple/coremltools/issues/1740",
        confidence="documented",
    ),
    KnownHazard(
        id="refused-newer-type",
        kind="refused",
        phase="load",
        check=_newer_types,
        fix="convert for the system that the type needs (minimum_deployment_target), or use float32",
        source=_INTERFACE,
        confidence="documented",
    ),
    KnownHazard(
        id="refused-classifier-batch",
        kind="refused",
        phase="load",
        check=_classified_batches,
        fix="convert the classifier for one sample, with a fixed batch of 1, or without classifier_config",
        source="https://github.com/apple/coremltools/pull/2793",
        confidence="measured",
    ),
    KnownHazard(
        id="refused-predicted-feature",
        kind="refused",
        phase="load",
        check=_predicted_features,
        fix="name an output of the right type as predictedFeatureName",
        source=_INTERFACE,
        confidence="documented",
    ),
    KnownHazard(
        id="refused-network-input",
        kind="refused",
        phase="load",
        check=_network_inputs,
        fix="convert with coremltools 4 or newer, which writes exact shapes",
        source=_NETWORK,
        confidence="documented",
    ),
    KnownHazard(
        id="refused-suppression",
        kind="refused",
        phase="load",
        check=_suppression,
        fix="let the detector and the suppression exchange float32: ct.TensorType(dtype=np.float32)",
        source=f"{_VALIDATORS}/NonMaximumSuppressionValidator.cpp",
        confidence="documented",
    ),
    KnownHazard(
        id="refused-pipeline-value",
        kind="refused",
        phase="load",
        check=_passed_values,
        fix="give the value one type and shape in both descriptions",
        source=f"{_VALIDATORS}/PipelineValidator.cpp",
        confidence="documented",
    ),
    KnownHazard(
        id="dark-picture",
        kind="wrong values",
        check=_dark_pictures,
        fix="scale the result to 0 to 255 before the output",
        source="https://github.com/apple/coremltools/issues/2449",
        confidence="documented",
    ),
)
