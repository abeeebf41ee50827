"""Models for recorded programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with models: small, of fp16, deep, with a large result, of images."""
    import coremltools as ct
    from coremltools.converters.mil import Builder as mb
    from coremltools.converters.mil.mil import types

    folder = tmp_path_factory.mktemp("models")

    def save(name: str, program: Any, **options: Any) -> None:
        options = {"minimum_deployment_target": ct.target.iOS16, "skip_model_load": True, **options}
        ct.convert(program, convert_to="mlprogram", **options).save(str(folder / f"{name}.mlpackage"))

    def network(size: tuple[int, ...], layers: int, dtype: Any, scale: int = 1) -> Any:
        weights = np.full((size[1], size[1], 3, 3), 0.01, np.float16 if dtype == types.fp16 else np.float32)

        @mb.program(input_specs=[mb.TensorSpec(size, dtype=dtype)], opset_version=ct.target.iOS16)
        def program(x: Any) -> Any:
            for _ in range(layers):
                x = mb.relu(x=mb.conv(x=x, weight=weights, pad_type="same"))
            if scale > 1:
                x = mb.upsample_nearest_neighbor(x=x, scale_factor_height=scale, scale_factor_width=scale)
            return mb.identity(x=x, name="y")

        return program

    save("net", network((1, 4, 16, 16), 2, types.fp32))
    save("half", network((1, 4, 16, 16), 2, types.fp16))

    @mb.program(input_specs=[mb.TensorSpec((1, 8))], opset_version=ct.target.iOS16)
    def deep(x: Any) -> Any:
        for _ in range(120):  # Many small operations: quick to run, slow to prepare.
            x = mb.tanh(x=mb.add(x=x, y=np.float32(0.1)))
        return mb.identity(x=x, name="y")

    save("deep", deep)
    save("large", network((1, 1, 8, 8), 1, types.fp16, 128))
    image = ct.ImageType("image", shape=(1, 3, 32, 32))

    @mb.program(input_specs=[mb.TensorSpec((1, 3, 32, 32))], opset_version=ct.target.iOS16)
    def pictures(image: Any) -> Any:
        return mb.reduce_mean(x=image, axes=[1, 2, 3], keep_dims=False, name="y")

    save("image", pictures, inputs=[image])
    return folder
