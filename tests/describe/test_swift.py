"""The Swift interface of a model."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from coremlscope.cli import main
from coremlscope.describe.swift import swift_interface
from coremlscope.model import ir


def model(**features: ir.FeatureType) -> ir.Model:
    """A model with these inputs and one output."""
    function = ir.FunctionDescription(
        inputs=[ir.Feature(name, type_) for name, type_ in features.items()],
        outputs=[ir.Feature("label", ir.StringFeature())],
    )
    return ir.Model(
        spec_version=9,
        description=ir.Description({"main": function}, "main"),
        content=ir.Opaque(kind="mlProgram"),
        source=Path("My Net-2.mlpackage"),
    )


def test_pictures_of_core_graphics_fill_images_alone() -> None:
    swift = swift_interface(model(image=ir.ImageFeature("RGB", 8, 6), scale=ir.DoubleFeature()))
    assert "    convenience init(imageWith image: CGImage, scale: Double) throws {\n" in swift
    assert "pixelsWide: 8, pixelsHigh: 6, pixelFormatType: kCVPixelFormatType_32BGRA, options: nil" in swift
    assert ".imageBufferValue!, scale: scale)\n" in swift
    assert "CGImage" not in swift_interface(model(scale=ir.DoubleFeature()))


@pytest.mark.parametrize(
    ("type_", "declared", "wrapped"),
    [
        (ir.ArrayFeature(dtype=ir.DType.FP16, shape=(1, 4)), "MLMultiArray", "MLFeatureValue(multiArray: x)"),
        (ir.ImageFeature("GRAYSCALE_FLOAT16", 8, 8), "CVPixelBuffer", "MLFeatureValue(pixelBuffer: x)"),
        (ir.DoubleFeature(), "Double", "MLFeatureValue(double: x)"),
        (ir.DictionaryFeature("string"), "[AnyHashable: NSNumber]", "try? MLFeatureValue(dictionary: x)"),
    ],
)
def test_each_type_has_its_own_in_swift(type_: ir.FeatureType, declared: str, wrapped: str) -> None:
    swift = swift_interface(model(x=type_))
    assert f"    var x: {declared}\n" in swift
    assert f'        case "x": {wrapped}\n' in swift
    assert f"func prediction(x: {declared}) async throws -> My_Net_2Output" in swift
    assert ("kCVPixelFormatType_OneComponent16Half" in swift) == isinstance(type_, ir.ImageFeature)


def test_names_cannot_become_code() -> None:
    name = 'x"\n}; evil() //'
    features = {name: ir.DoubleFeature(), "class": ir.DoubleFeature(), "1st": ir.DoubleFeature()}
    swift = swift_interface(model(**features))
    assert not any(line.strip().startswith("}; evil") for line in swift.splitlines())
    assert "    var `class`: Double\n" in swift
    assert "    var _1st: Double\n" in swift
    assert 'case "x\\"\\u{a}}; evil() //": MLFeatureValue' in swift


def test_states_and_functions_are_in_it() -> None:
    described = model(x=ir.DoubleFeature())
    function = described.description.main
    state = ir.Feature("kv", ir.StateFeature(ir.ArrayFeature(dtype=ir.DType.FP16, shape=(1, 8))))
    functions = {"main": replace(function, states=[state]), "other": function}
    described = replace(described, description=ir.Description(functions, "main"))
    swift = swift_interface(described)
    assert "func makeState() -> MLState" in swift
    assert "using: state" in swift
    assert 'configuration.functionName = "main"' in swift
    assert "MLState" not in swift_interface(described, "other")


def test_shapes_are_those_of_inspect(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = corpus / "models" / "FluidInference__mobius" / "silero-vad-decoder-v6.0.0.mlpackage"
    assert main(["inspect", str(path), "--swift"]) == 0
    printed = capsys.readouterr().out
    assert "/// encoder_output: float32 1×128×1, allows 1×128×(1…1024)\n" in printed
    assert "/// vad_output: float32 1×1×1, allows" in printed


def test_the_verb_prints_only_swift(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = corpus / "models" / "lovoo__NSFWDetector" / "NSFW.mlmodel"
    assert main(["inspect", str(path), "--swift"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (lines[0][:2], lines[-1]) == ("//", "}")
