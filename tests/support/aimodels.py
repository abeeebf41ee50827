"""Core AI models that coreai-core wrote, in a folder next to the checkout."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

__all__ = ["SAMPLES", "copy_bundle", "program_of", "sample"]

_FOLDER = Path(__file__).parents[3] / "shared" / "knowledge" / "coreai" / "samples"
SAMPLES = (
    "tiny_conv",
    "tiny_conv_int8",
    "tiny_conv_lut4",
    "tiny_decoder_state",
    "tiny_encoder_dynamic",
)


def sample(name: str) -> Path:
    """Returns the path of a sample; skips the test if there are none."""
    path = _FOLDER / f"{name}.aimodel"
    if not path.is_dir():
        pytest.skip(f"no Core AI models at {_FOLDER}")
    return path


def program_of(name: str) -> bytes:
    """Returns the program of a sample."""
    return (sample(name) / "main.mlirb").read_bytes()


def copy_bundle(name: str, folder: Path) -> Path:
    """Copies a sample to a folder, where it can be changed."""
    target = folder / f"{name}.aimodel"
    shutil.copytree(sample(name), target, copy_function=shutil.copyfile)
    return target
