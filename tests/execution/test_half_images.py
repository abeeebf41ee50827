"""Images of half precision, which programs round at their inputs and outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
from coremltools.converters.mil import Builder as mb
from PIL import Image

from coremlscope.formats import container
from coremlscope.runtime.execution.pipeline import open_predictor


def test_pixels_are_rounded_to_float16_as_they_come_and_go(tmp_path: Path) -> None:
    shape = (1, 1, 64, 64)

    @mb.program(input_specs=[mb.TensorSpec(shape)], opset_version=ct.target.iOS16)
    def program(x: Any) -> Any:
        return mb.mul(x=x, y=np.float32(3), name="y")

    layout = ct.colorlayout.GRAYSCALE_FLOAT16
    options: dict[str, Any] = {"minimum_deployment_target": ct.target.iOS16, "skip_model_load": True}
    inputs = [ct.ImageType(name="x", shape=shape, color_layout=layout)]
    made = ct.convert(program, inputs=inputs, **options)
    spec = made.get_spec()
    spec.description.output[0].type.imageType.CopyFrom(spec.description.input[0].type.imageType)
    ct.models.utils.save_spec(spec, str(tmp_path / "m.mlpackage"), weights_dir=made.weights_dir)
    rng = np.random.default_rng(0)
    pixels = (rng.standard_normal(shape[2:]) * 10.0 ** rng.uniform(-8, 4, shape[2:])).astype(np.float32)
    pixels[0, :4] = 65519.9, 2**-25, 3 * 2**-25, -0.0
    given = pixels.astype(np.float16).astype(np.float32)
    with open_predictor(container.read(tmp_path / "m.mlpackage")) as predictor:
        result = predictor.predict({"x": Image.fromarray(pixels)})["y"]
    with np.errstate(over="ignore"):
        wanted = (given * 3).astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(np.asarray(result), wanted)
