"""The Swift interface of a model, after the classes that Xcode generates when a model is in an app's target.

Not yet compiled on a Mac. Names of types and initialisers are those of Core ML's public API.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from coremlscope.base.units import escape_controls
from coremlscope.model.features import describe_feature
from coremlscope.model.ir import (
    ArrayFeature,
    DictionaryFeature,
    DoubleFeature,
    Feature,
    FunctionDescription,
    ImageFeature,
    Int64Feature,
    Model,
    SequenceFeature,
    StringFeature,
)
from coremlscope.results.model import FeatureSummary, FunctionSummary

#: Swift's reserved words that names of features may be.
_RESERVED = re.compile(
    r"as|break|case|catch|class|continue|default|defer|do|else|enum|extension|false|"
    r"for|func|guard|if|import|in|init|inout|is|let|nil|operator|private|protocol|"
    r"public|repeat|return|self|static|struct|subscript|super|switch|throw|throws|"
    r"true|try|typealias|var|where|while"
)
_PIXELS = {
    "GRAYSCALE": "kCVPixelFormatType_OneComponent8",
    "GRAYSCALE_FLOAT16": "kCVPixelFormatType_OneComponent16Half",
}


class _Type(msgspec.Struct, frozen=True):
    """How Swift holds a value: its type, and the argument and the property of `MLFeatureValue` for it."""

    name: str
    argument: str
    property: str


def swift_interface(
    model: Model, function: str | None = None, summaries: Sequence[FunctionSummary] = ()
) -> str:
    """Returns Swift source: the classes of inputs and outputs, and one that loads the model and predicts.

    Args:
        model: The model. Its content is not read.
        function: The function; None for the default one.
        summaries: Its functions as `inspect` describes them, with shapes that only its content tells.
    """
    file = "Model.mlpackage" if model.source is None else Path(model.source).name
    described = model.description.functions
    chosen = function or model.description.default
    told = next(
        (one for one in summaries if one.name == chosen), FunctionSummary(name=chosen, inputs=(), outputs=())
    )
    interface = replace(
        described[chosen],
        inputs=_documented(described[chosen].inputs, told.inputs),
        outputs=_documented(described[chosen].outputs, told.outputs),
        states=_documented(described[chosen].states, told.states),
    )
    return "\n".join([*_lines(file, interface, chosen if len(described) > 1 else "")]) + "\n"


def _lines(file: str, function: FunctionDescription, function_name: str) -> Iterator[str]:
    name = _label(Path(file).stem)
    yield f"// The interface of {escape_controls(file)}: a template after what Xcode generates."
    if not file.endswith(".mlmodelc"):
        command = f"xcrun coremlcompiler generate {shlex.quote(escape_controls(file))} . --language Swift"
        yield f"// On a Mac Xcode's own: {command}"
    yield "import CoreML"
    yield ""
    yield from _input_class(name, function.inputs)
    yield ""
    yield from _output_class(name, function.outputs)
    yield ""
    yield f"final class {name} {{"
    yield "    let model: MLModel"
    yield ""
    yield "    init(contentsOf url: URL, configuration: MLModelConfiguration = .init()) throws {"
    if function_name:
        yield f"        configuration.functionName = {_quoted(function_name)}  // iOS 18, macOS 15"
    yield "        model = try MLModel(contentsOf: url, configuration: configuration)  // a .mlmodelc folder"
    yield "    }"
    if function.states:
        yield ""
        for one in function.states:
            yield f"    /// {one.doc}"
        yield "    func makeState() -> MLState { model.makeState() }"
    yield ""
    state, using = (", using state: MLState", ", using: state") if function.states else ("", "")
    yield f"    func prediction(input: {name}Input{state}) async throws -> {name}Output {{"
    yield f"        {name}Output(try await model.prediction(from: input{using}))"
    yield "    }"
    yield ""
    parameters = ", ".join(f"{_identifier(one.name)}: {_declared(one)}" for one in function.inputs)
    passed = ", ".join(f"{_label(one.name)}: {_identifier(one.name)}" for one in function.inputs)
    yield f"    func prediction({parameters}{state}) async throws -> {name}Output {{"
    yield f"        try await prediction(input: {name}Input({passed}){', using: state' if state else ''})"
    yield "    }"
    yield "}"


def _input_class(name: str, inputs: Sequence[Feature]) -> Iterator[str]:
    yield f"final class {name}Input: MLFeatureProvider {{"
    for one in inputs:
        yield f"    /// {one.doc}"
        yield f"    var {_identifier(one.name)}: {_declared(one)}"
    yield ""
    names = ", ".join(_quoted(one.name) for one in inputs)
    yield f"    var featureNames: Set<String> {{ [{names}] }}"
    yield ""
    yield "    func featureValue(for featureName: String) -> MLFeatureValue? {"
    yield "        switch featureName {"
    for one in inputs:
        yield f"        case {_quoted(one.name)}: {_wrapped(one)}"
    yield "        default: nil"
    yield "        }"
    yield "    }"
    yield ""
    parameters = ", ".join(f"{_identifier(one.name)}: {_declared(one)}" for one in inputs)
    yield f"    init({parameters}) {{"
    for one in inputs:
        yield f"        self.{_label(one.name)} = {_identifier(one.name)}"
    yield "    }"
    yield from _pictures_init(inputs)
    yield "}"


def _pictures_init(inputs: Sequence[Feature]) -> Iterator[str]:
    """The initialiser from pictures, which Core ML resizes and converts."""
    if not any(isinstance(one.type, ImageFeature) for one in inputs):
        return
    parameters, passed = [], []
    for one in inputs:
        name, value = _label(one.name), _identifier(one.name)
        if isinstance(one.type, ImageFeature):
            parameters.append(f"{name}With {value}: CGImage")
            size = f"pixelsWide: {one.type.width}, pixelsHigh: {one.type.height}"
            made = f"cgImage: {value}, {size}, pixelFormatType: {_pixels(one.type)}, options: nil"
            value = f"try MLFeatureValue({made}).imageBufferValue!"
        else:
            parameters.append(f"{value}: {_declared(one)}")
        passed.append(f"{name}: {value}")
    yield ""
    yield f"    convenience init({', '.join(parameters)}) throws {{"
    yield f"        self.init({', '.join(passed)})"
    yield "    }"


def _output_class(name: str, outputs: Sequence[Feature]) -> Iterator[str]:
    yield f"final class {name}Output {{"
    yield "    let provider: MLFeatureProvider"
    yield "    init(_ provider: MLFeatureProvider) { self.provider = provider }"
    for one in outputs:
        type_ = _type(one)
        value = f"provider.featureValue(for: {_quoted(one.name)})!.{type_.property}"
        yield ""
        yield f"    /// {one.doc}"
        yield f"    var {_identifier(one.name)}: {type_.name} {{ {value} }}"
    yield "}"


def _type(feature: Feature) -> _Type:
    match feature.type:
        case ImageFeature():
            return _Type("CVPixelBuffer", "pixelBuffer", "imageBufferValue!")
        case ArrayFeature():
            return _Type("MLMultiArray", "multiArray", "multiArrayValue!")
        case Int64Feature():
            return _Type("Int64", "int64", "int64Value")
        case DoubleFeature():
            return _Type("Double", "double", "doubleValue")
        case StringFeature():
            return _Type("String", "string", "stringValue")
        case DictionaryFeature():
            return _Type("[AnyHashable: NSNumber]", "dictionary", "dictionaryValue")
        case SequenceFeature():
            return _Type("MLSequence", "sequence", "sequenceValue!")
    return _Type("MLMultiArray", "multiArray", "multiArrayValue!")


def _declared(feature: Feature) -> str:
    return _type(feature).name + ("?" if feature.is_optional else "")


def _wrapped(feature: Feature) -> str:
    """The expression that makes a value of a feature from the property."""
    name, argument = _identifier(feature.name), _type(feature).argument
    making = "try? MLFeatureValue" if argument == "dictionary" else "MLFeatureValue"
    if feature.is_optional:
        return f"{name}.{'flatMap' if argument == 'dictionary' else 'map'} {{ {making}({argument}: $0) }}"
    return f"{making}({argument}: {name})"


def _documented(features: Sequence[Feature], summaries: Sequence[FeatureSummary]) -> list[Feature]:
    """The features with one line on each: its type, the shapes it allows, the pixels of images, its text."""
    told = {one.name: one for one in summaries}
    documented = []
    for one in features:
        summary = told.get(one.name, FeatureSummary(name=one.name, type=describe_feature(one.type)))
        allowed = summary.flexibility and f"allows {summary.flexibility}"
        pixels = _pixels(one.type) if isinstance(one.type, ImageFeature) else ""
        parts = (summary.type, allowed, pixels, " ".join(one.doc.split()))
        text = escape_controls(f"{one.name}: {', '.join(filter(None, parts))}")
        documented.append(replace(one, doc=text))
    return documented


def _pixels(image: ImageFeature) -> str:
    return _PIXELS.get(image.color_space, "kCVPixelFormatType_32BGRA")


def _label(name: str) -> str:
    """A name as a Swift identifier, as labels of arguments have it."""
    found = re.sub(r"\W", "_", name)
    return found if found and not found[0].isdigit() else f"_{found}"


def _identifier(name: str) -> str:
    found = _label(name)
    return f"`{found}`" if _RESERVED.fullmatch(found) else found


def _quoted(text: str) -> str:
    """A text as a Swift literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", lambda m: f"\\u{{{ord(m[0]):x}}}", escaped) + '"'
