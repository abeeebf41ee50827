"""Where links of the page land, and what axe finds on pages of published models."""

from __future__ import annotations

from pathlib import Path

import pytest

from coremlscope import api
from coremlscope.reports.page import render_html
from tests.support.browser import Drive
from tests.support.large_profiles import layered_profile

CORPUS = Path(__file__).parents[3] / "shared" / "corpus" / "models"
MODELS = (
    "mlcommons__mobile_models/MobilenetEdgeTPU.mlpackage",
    "FluidInference__FluidAudio/streaming_encoder.mlpackage",
    "raywenderlich__mlt-materials/Es2EnCharDecoder.mlmodel",
    "getbouncer__cardscan-ios/SSDOcr.mlmodel",
)


#: More of them, of other kinds and ages, for what a page says to those who do not see it.
MORE = (
    "apple__coremltools/TinyDrawingEmbedding.mlmodel",
    "spotify__basic-pitch/nmp.mlpackage",
    "tucan9389__PoseEstimation-CoreML/model_cpm.mlmodel",
    "mattmireles__kokoro-coreml/kokoro_duration.mlpackage",
)
SIZES, WAYS = ("desk", "phone"), ("clicked", "linked")


def misses(drive: Drive, page: Path, size: str, way: str) -> dict[str, int]:
    """The sections that are more than four pixels from where they should be."""
    found = drive("landing", page, size, way)
    found = {name: off for name, off in found.items() if name not in ("complaints", "foreign")}
    assert len(found) > 4
    return {section: off for section, off in found.items() if abs(off) > 4}


@pytest.mark.parametrize(("size", "way"), [("desk", "clicked"), ("phone", "linked")])
def test_every_section_is_where_the_first_click_or_the_address_leads(
    drive: Drive, tmp_path: Path, size: str, way: str
) -> None:
    page = tmp_path / "page.html"
    page.write_text(render_html(layered_profile(120)), encoding="utf-8")
    assert misses(drive, page, size, way) == {}


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", MODELS)
def test_sections_of_published_models_are_where_links_lead(
    drive: Drive, tmp_path: Path, name: str, size: str, way: str
) -> None:
    assert misses(drive, estimated(name, tmp_path), size, way) == {}


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS + MORE)
def test_pages_of_published_models_suit_readers(drive: Drive, tmp_path: Path, name: str) -> None:
    found = drive("accessibility", estimated(name, tmp_path))
    assert found["light"] == found["dark"] == found["complaints"] == []


def estimated(name: str, folder: Path) -> Path:
    """The page of a model's estimates."""
    if not (CORPUS / name).exists():
        pytest.skip("the corpus is absent")
    page = folder / "page.html"
    api.estimate(CORPUS / name, devices=["m4", "iphone-12"]).write(page)
    return page
