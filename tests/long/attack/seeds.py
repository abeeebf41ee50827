"""Undamaged files of every kind that a verb reads, by kind and name."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image

import coremlscope
from coremlscope.measure.effort import Effort
from tests.doctor.test_crash import report_bytes
from tests.support.model_files import Files, all_seeds, write_files

__all__ = ["Seeds", "Source", "all_sources"]

Source = Literal["model", "import", "profile", "value", "log", "table"]
Seeds = Mapping[Source, Mapping[str, Files]]

_DATA = Path(__file__).parents[2] / "data"
_LOG = b"""\
2026-01-01 12:00:00 app[123] Error computing NN outputs.
2026-01-01 12:00:01 app[123] E5RT encountered an STL exception. msg = MILCompilerForANE error
2026-01-01 12:00:02 app[123] Unable to load model from /Users/me/\x1b[31mNet.mlmodelc
"""
_TABLE = b"model,chip,unit,milliseconds\nm.mlpackage,m2,neural_engine,4.31\nm.mlpackage,m2,cpu,21.9\n"


def _saved(write: Callable[[io.BytesIO], object]) -> bytes:
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


def _values() -> dict[str, Files]:
    image = np.random.default_rng(0).integers(0, 255, (8, 8, 3), dtype=np.uint8)
    array = np.zeros((1, 4, 8, 8), np.float32)
    files = {
        "x.npy": _saved(lambda file: np.save(file, array)),
        "x.npz": _saved(lambda file: np.savez(file, x=array)),
        "x.json": json.dumps(array.tolist()).encode(),
        "x.txt": b"a text\n",
        "x.png": _saved(lambda file: Image.fromarray(image).save(file, "PNG")),
        "x.jpg": _saved(lambda file: Image.fromarray(image).save(file, "JPEG")),
    }
    return {name: {name: content} for name, content in files.items()}


def _profiles(model: Files) -> dict[str, Files]:
    """Saved profiles of this version, of the one before, and of several models."""
    with tempfile.TemporaryDirectory() as folder:
        path, target = write_files(model, Path(folder)), Path(folder) / "p.json"
        coremlscope.plan(path, devices=["m1", "a14"]).write(target)
        contents = {"plan": target.read_bytes()}
        coremlscope.estimate(path, devices="m1").write(target)
        contents["estimate"] = target.read_bytes()
        few = {"iterations": 2, "effort": Effort(compile_iterations=1, load_iterations=1, warmups=0)}
        coremlscope.profile(path, engine="onnxruntime", devices="m1", **few).write(target)
        contents["profile"] = target.read_bytes()
    contents["list"] = b"[" + contents["plan"] + b"," + contents["estimate"] + b"]"
    contents |= {path.name: path.read_bytes() for path in sorted(_DATA.glob("*.json"))}
    return {name: {"p.json": content} for name, content in contents.items()}


def all_sources() -> Seeds:
    """The files by kind and name. Building them takes some seconds."""
    seeds = all_seeds()
    models = {name: files for name, files in seeds.items() if not name.startswith("import ")}
    return {
        "model": models,
        "import": {name: files for name, files in seeds.items() if name.startswith("import ")},
        "profile": _profiles(seeds["mlpackage"]),
        "value": _values(),
        "log": {"log": {"app.log": _LOG}, "crash": {"crash.ips": report_bytes()}},
        "table": {"table": {"t.csv": _TABLE}},
    }
