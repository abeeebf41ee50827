"""Real models against independent references: an ONNX export, and the uncompressed models."""

from __future__ import annotations

import subprocess
import sys
import warnings
import zipfile
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from coremlscope.formats.container import read
from coremlscope.runtime.execution.executable import compile_model

pytestmark = pytest.mark.corpus

_SILERO = "models/FluidInference__mobius"
_WINDOWS = 6
_SAMPLES = 4160

#: The largest change of the speech probability, and the mean change of all outputs (probabilities, cell and
#: hidden states, the latter two unbounded), that each compression of the weights may cause. About three times
#: what is seen: 8 bits a weight, 6, 4, and half of the weights set to zero.
_COMPRESSIONS = {
    "palette_8bit": (0.15, 0.07),
    "int8": (0.25, 0.1),
    "palette_6bit": (0.75, 0.5),
    "palette_4bit": (1.0, 1.2),
    "pruned_int8": (0.3, 0.2),
}


def _listen(package: Path, folder: Path) -> np.ndarray:
    """One row per audio window: the speech probability, then both states, which the next window takes."""
    random = np.random.default_rng(0)
    time = np.arange(_SAMPLES) / 16_000
    states = {"hidden_state": np.zeros((1, 128), np.float32), "cell_state": np.zeros((1, 128), np.float32)}
    rows = []
    with closing(compile_model(read(package), folder)) as executable:
        for window in range(_WINDOWS):
            voice = np.sin(2 * np.pi * (150 + 40 * window) * time) * (1 + np.sin(2 * np.pi * 5 * time))
            audio = (0.4 * voice + 0.05 * random.standard_normal(_SAMPLES)).astype(np.float32)
            outputs = executable.predict({"audio_input": audio[None], **states})
            states = {name: outputs[f"new_{name}"] for name in states}
            rows.append(np.concatenate([value.ravel() for value in outputs.values()]))
    order = list(outputs)
    assert order[0] == "vad_output"
    return np.stack(rows)


@pytest.fixture(scope="module")
def original(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    """The outputs of the uncompressed voice-activity detector."""
    package = corpus / _SILERO / "silero-vad-unified-256ms-v6.0.0.mlpackage"
    return _listen(package, tmp_path_factory.mktemp("original"))


@pytest.mark.parametrize("variant", _COMPRESSIONS)
def test_silero_compressed_stays_near_the_original(
    variant: str, corpus: Path, original: np.ndarray, tmp_path: Path
) -> None:
    package = corpus / _SILERO / f"unified_256ms_{variant}.mlpackage"
    difference = np.abs(_listen(package, tmp_path) - original)
    largest, mean = _COMPRESSIONS[variant]
    assert difference[:, 0].max() <= largest
    assert difference.mean() <= mean


@pytest.mark.parametrize("variant", _COMPRESSIONS)
def test_silero_is_decompressed_as_coremltools_does(variant: str, corpus: Path, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import coremltools as ct

        package = corpus / _SILERO / f"unified_256ms_{variant}.mlpackage"
        plain = tmp_path / "plain.mlpackage"
        model = ct.models.MLModel(str(package), skip_model_load=True)
        ct.optimize.coreml.decompress_weights(model).save(str(plain))
    ours, theirs = _listen(package, tmp_path / "ours"), _listen(plain, tmp_path / "theirs")
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_basic_pitch_equals_its_onnx_export(corpus: Path, tmp_path: Path) -> None:
    import onnxruntime

    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    finished = subprocess.run(
        [*command, "--dest", str(tmp_path), "basic-pitch==0.4.0"], capture_output=True, text=True, check=False
    )
    if finished.returncode:
        pytest.skip(f"the wheel of basic-pitch cannot be fetched: {finished.stderr.strip()[-200:]}")
    with zipfile.ZipFile(next(tmp_path.glob("basic_pitch-*.whl"))) as wheel:
        graph = wheel.read("basic_pitch/saved_models/icassp_2022/nmp.onnx")
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])

    audio = (np.random.default_rng(0).standard_normal((1, 43844, 1)) * 0.2).astype(np.float32)
    package = corpus / "models/spotify__basic-pitch/nmp.mlpackage"
    with closing(compile_model(read(package), tmp_path / "compiled")) as executable:
        outputs = executable.predict({"input_2": audio})
    for index, name in enumerate(("Identity", "Identity_1", "Identity_2")):
        [expected] = session.run([f"StatefulPartitionedCall:{index}"], {session.get_inputs()[0].name: audio})
        np.testing.assert_allclose(outputs[name], expected, atol=1e-4)
