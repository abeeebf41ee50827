"""Known hazards at a load."""

from __future__ import annotations

from pathlib import Path

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

pytestmark = pytest.mark.usefixtures("drop_in")


def test_the_drop_in_warns_once_a_load_of_what_holds_on_every_unit(tmp_path: Path) -> None:
    @mb.program(input_specs=[mb.TensorSpec(shape=(1, 3, 4, 4))], opset_version=ct.target.iOS16)
    def cropped(x):  # type: ignore[no-untyped-def]
        return mb.conv_transpose(x=x, weight=np.ones((3, 3, 3, 3), np.float32), output_shape=[1, 3, 4, 4])

    path = str(tmp_path / "a.mlpackage")
    ct.convert(cropped, minimum_deployment_target=ct.target.iOS16, skip_model_load=True).save(path)
    with pytest.warns(RuntimeWarning, match="a transposed convolution with an output_shape") as caught:
        ct.models.MLModel(path)
    assert len(caught) == 1
