"""A style-transfer network with random weights, as two models: float32 arrays, and images."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
from coremltools.converters.mil import Builder as mb

SIZE = 256


def _network(opset: Any) -> Any:
    """Downsamples twice, applies residual blocks, upsamples twice: the usual shape of such networks."""
    random = np.random.default_rng(0)

    def conv(x: Any, filters: int, kernel: int, stride: int = 1) -> Any:
        channels = x.shape[1]
        scale = np.sqrt(2 / (channels * kernel * kernel))
        weight = (scale * random.standard_normal((filters, channels, kernel, kernel))).astype(np.float32)
        return mb.conv(x=x, weight=weight, strides=[stride, stride], pad_type="same")

    @mb.program(input_specs=[mb.TensorSpec((1, 3, SIZE, SIZE))], opset_version=opset)
    def program(image: Any) -> Any:
        x = mb.mul(x=image, y=np.float32(1 / 255))
        for filters, kernel, stride in ((16, 9, 1), (32, 3, 2), (64, 3, 2)):
            x = mb.relu(x=conv(x, filters, kernel, stride))
        for _ in range(3):
            x = mb.add(x=x, y=conv(mb.relu(x=conv(x, 64, 3)), 64, 3))
        for filters in (32, 16):
            x = mb.upsample_nearest_neighbor(x=x, scale_factor_height=2, scale_factor_width=2)
            x = mb.relu(x=conv(x, filters, 3))
        return mb.mul(x=mb.sigmoid(x=conv(x, 3, 9)), y=np.float32(255), name="stylized")

    return program


def build(folder: Path) -> None:
    """Writes `style_arrays.mlpackage` and `style_images.mlpackage` unless they exist."""
    options: dict[str, Any] = {
        "convert_to": "mlprogram",
        "minimum_deployment_target": ct.target.iOS16,
        "skip_model_load": True,
    }
    arrays, images = folder / "style_arrays.mlpackage", folder / "style_images.mlpackage"
    if not arrays.exists():
        ct.convert(_network(ct.target.iOS16), **options).save(str(arrays))
    if not images.exists():
        given = ct.ImageType("image", shape=(1, 3, SIZE, SIZE), color_layout=ct.colorlayout.RGB)
        result = ct.ImageType("stylized", color_layout=ct.colorlayout.RGB)
        ct.convert(_network(ct.target.iOS16), inputs=[given], outputs=[result], **options).save(str(images))


if __name__ == "__main__":
    build(Path(sys.argv[1]))
