"""What the compiler folded and fused, in published compiled networks."""

from __future__ import annotations

from pathlib import Path

import pytest

from coremlscope import api


@pytest.mark.parametrize(
    ("name", "fact"),
    [
        # The counts of the source are in its metadata.json: 60 BatchNorm and 41 ActivationReLU.
        ("SSDOcr.mlmodelc", "41 relu fused into convolution; 60 BatchNorm folded into other layers"),
        # A folder of an older compiler has none; 17 convolutions have the flag fused_relu.
        ("FourRecognize.mlmodelc", "17 relu fused into convolution"),
        ("FourRecognize.mlmodel", None),
    ],
)
def test_folded_and_fused_layers_are_counted(name: str, fact: str | None, corpus: Path) -> None:
    summary = api.inspect(api.read(corpus / "models" / "getbouncer__cardscan-ios" / name))
    assert dict(summary.facts).get("compiled") == fact
