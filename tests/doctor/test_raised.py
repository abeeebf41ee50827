"""Texts of the installed coremltools, by the place that writes them."""

from __future__ import annotations

import pytest

from coremlscope.studies.doctor.log import find_raised


@pytest.mark.parametrize(
    ("text", "file", "function", "condition"),
    [
        (
            "ValueError: divisor_override is not supported for avg_pool2d",
            "converters/mil/frontend/torch/ops.py",
            "avg_pool2d",
            "divisor_override is not None",
        ),
        (
            "ValueError: Unique values in weight cannot be represented by 8 bits palettization.",
            "optimize/coreml/_quantization_passes.py",
            "_get_nbits_for_unique_mode",
            "",
        ),
        (
            'Core ML only supports tensors with rank <= 5. Layer "x", with type "y", outputs a rank 6 tensor',
            "converters/mil/mil/program.py",
            "_check_invalid_tensor_rank_block",
            "rank >= 6",
        ),
    ],
)
def test_the_place_of_a_text(text: str, file: str, function: str, condition: str) -> None:
    found = find_raised(text)
    assert found is not None
    assert (found.file, found.function) == (file, function)
    assert condition in found.condition


@pytest.mark.parametrize("text", ["", "ValueError: a text of nobody", "ANECCompile() FAILED"])
def test_texts_of_others(text: str) -> None:
    assert find_raised(text) is None
