"""Writes models that reach other ways into Core ML than a sample with one image does.

python tools/mac_models.py FOLDER

`states.mlpackage` adds an array to a state; `functions.mlpackage` has the functions `sine` and `cosine`;
`array.mlpackage` reads one array, and `array.mlmodelc` is the same, as Core ML compiled it.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import coremltools as ct
import numpy as np
from coremltools.converters import mil
from coremltools.converters.mil import Builder as mb  # noqa: N813 - its usual name
from coremltools.converters.mil.mil import types

_TARGET = ct.target.iOS18


def write_models(folder: Path) -> None:
    """Writes the models into a folder."""
    folder.mkdir(parents=True, exist_ok=True)

    @mb.program(
        input_specs=[mb.TensorSpec((64,), dtype=types.fp16), mb.StateTensorSpec((64,), dtype=types.fp16)],
        opset_version=_TARGET,
    )
    def adding(x, total):
        summed = mb.add(x=mb.read_state(input=total), y=x, name="sum")
        mb.coreml_update_state(state=total, value=summed)
        return summed

    _save(ct.convert(adding, minimum_deployment_target=_TARGET), folder / "states.mlpackage")
    weight = np.random.default_rng(1).standard_normal((64, 64)).astype(np.float32)

    @mb.program(input_specs=[mb.TensorSpec((8, 64))], opset_version=_TARGET)
    def layer(x):
        return mb.relu(x=mb.linear(x=x, weight=weight), name="y")

    _save(ct.convert(layer, minimum_deployment_target=_TARGET), folder / "array.mlpackage")
    program = mil.Program()
    trace = mb.function(input_specs=[mb.TensorSpec((64,))], opset_version=_TARGET)
    program.add_function("sine", trace(lambda x: mb.sin(x=x, name="y")))
    program.add_function("cosine", trace(lambda x: mb.cos(x=x, name="y")))
    program.default_function_name = "sine"
    program.export_as_multifunction = True
    program.skip_all_passes = True
    several = ct.convert(program, convert_to="mlprogram", minimum_deployment_target=_TARGET)
    _save(several, folder / "functions.mlpackage")
    compiled = folder / "array.mlmodelc"
    shutil.rmtree(compiled, ignore_errors=True)
    ct.models.utils.compile_model(str(folder / "array.mlpackage"), str(compiled))
    np.save(folder / "x.npy", np.linspace(-1, 1, 512, dtype=np.float32).reshape(8, 64))


def _save(model: ct.models.MLModel, path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    model.save(str(path))


if __name__ == "__main__":
    write_models(Path(sys.argv[1]))
