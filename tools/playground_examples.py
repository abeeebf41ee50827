"""The models that people without one at hand can open: built in code, with synthetic weights."""

from __future__ import annotations

import itertools
import struct
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["EXAMPLES", "write_examples"]

#: What the start page shows; two files are compared. A model with a mistake names the page of its fix.
_MENDED = {
    "title": "Before and after a change",
    "text": "The encoder next to one whose running sums became matrix products: what that saves.",
    "files": ["examples/TextEncoder.mlpackage.zip", "examples/TextEncoderMended.mlpackage.zip"],
}
EXAMPLES = [
    {
        "title": "A text encoder",
        "text": "A small transformer with a mistake: running sums leave the Neural Engine in every layer.",
        "files": ["examples/TextEncoder.mlpackage.zip"],
        "fix": _MENDED,
    },
    _MENDED,
    {
        "title": "An image classifier",
        "text": "MobileNetV2: nearly all of it suits the Neural Engine.",
        "files": ["examples/MobileNetV2.mlpackage.zip"],
    },
]
_DATE = (2020, 1, 1, 0, 0, 0)
_WORDS, _LENGTH, _WIDTH, _HEADS, _LAYERS = 8_000, 128, 256, 4, 4


def write_examples(folder: Path) -> list[Path]:
    """Writes the examples as zip archives.

    Returns:
        The files.
    """
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as temporary:
        packages = _packages(Path(temporary))
        return [_zipped(package, folder / f"{package.name}.zip") for package in packages]


def _packages(folder: Path) -> list[Path]:
    from coremlscope.formats.container import read
    from coremlscope.formats.packaging import write_mlpackage
    from coremlscope.formats.sample import sample_model

    classifier = folder / "MobileNetV2.mlpackage"
    write_mlpackage(sample_model(), classifier)
    packages = [classifier]
    for is_mended, name in ((False, "TextEncoder.mlpackage"), (True, "TextEncoderMended.mlpackage")):
        converted = _encoder(is_mended=is_mended)
        # No date, no random identifiers, and maps in their order: equal sources give equal files.
        del converted.user_defined_metadata["com.github.apple.coremltools.conversion_date"]
        saved = folder / "converted" / name
        converted.save(str(saved))
        (spec,) = saved.rglob("model.mlmodel")
        spec.write_bytes(converted.get_spec().SerializeToString(deterministic=True))
        write_mlpackage(read(saved), folder / name)
        packages.append(folder / name)
    return packages


def _zipped(package: Path, target: Path) -> Path:
    """Writes a package as an archive."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for file in sorted(package.rglob("*")):
            if file.is_file():
                name = file.relative_to(package.parent).as_posix()
                content = _repeated(file.read_bytes()) if file.suffix == ".bin" else file.read_bytes()
                archive.writestr(zipfile.ZipInfo(name, _DATE), content, zipfile.ZIP_DEFLATED)
    return target


def _repeated(weights: bytes) -> bytes:
    """Returns a weight file whose blobs repeat their first elements, so that it is small in an archive.

    The layout is that of `coremlscope.formats.weights`: 64 bytes on a blob, then its data, aligned.
    """
    repeated, place = bytearray(weights), 64
    while place < len(weights):
        (size,) = struct.unpack_from("<Q", weights, place + 8)
        start = place + 64
        first = weights[start : start + min(size, 1024)]
        repeated[start : start + size] = (first * (size // max(1, len(first)) + 1))[:size]
        place = -(-(start + size) // 64) * 64
    return bytes(repeated)


def _encoder(*, is_mended: bool) -> Any:
    """A transformer encoder over tokens, with running sums before its attention."""
    import coremltools as ct
    from coremltools.converters.mil import Builder as mb  # noqa: N813 - as everyone calls it
    from coremltools.converters.mil.mil import types

    phases = itertools.count()

    def weights(*shape: int) -> np.ndarray:
        # A pattern that compresses well: the values do not matter here.
        return (np.resize(np.sin(np.arange(4096) + next(phases)), shape) / np.sqrt(shape[-1])).astype(
            np.float32
        )

    def normalised(x: Any) -> Any:
        return mb.layer_norm(
            x=x, axes=[-1], gamma=np.ones(_WIDTH, np.float32), beta=np.zeros(_WIDTH, np.float32)
        )

    def heads(x: Any) -> Any:
        split = mb.reshape(x=x, shape=[1, _LENGTH, _HEADS, _WIDTH // _HEADS])
        return mb.transpose(x=split, perm=[0, 2, 1, 3])

    def summed(x: Any) -> Any:
        """The sum of each token and those before it, as a mean over the length."""
        if is_mended:
            return mb.matmul(x=np.tril(np.ones((1, _LENGTH, _LENGTH), np.float32)) / _LENGTH, y=x)
        return mb.mul(x=mb.cumsum(x=x, axis=1), y=np.float32(1 / _LENGTH))

    @mb.program(input_specs=[mb.TensorSpec((1, _LENGTH), dtype=types.int32)], opset_version=ct.target.iOS17)
    def program(tokens: Any) -> Any:
        x = mb.gather(x=weights(_WORDS, _WIDTH), indices=tokens, axis=0)
        for _ in range(_LAYERS):
            x = mb.add(x=x, y=mb.linear(x=summed(normalised(x)), weight=weights(_WIDTH, _WIDTH)))
            y = normalised(x)
            q, k, v = (heads(mb.linear(x=y, weight=weights(_WIDTH, _WIDTH))) for _ in range(3))
            scores = mb.mul(x=mb.matmul(x=q, y=k, transpose_y=True), y=np.float32(1 / 8))
            mixed = mb.matmul(x=mb.softmax(x=scores, axis=-1), y=v)
            joined = mb.reshape(x=mb.transpose(x=mixed, perm=[0, 2, 1, 3]), shape=[1, _LENGTH, _WIDTH])
            x = mb.add(x=x, y=mb.linear(x=joined, weight=weights(_WIDTH, _WIDTH)))
            wide = mb.gelu(
                x=mb.linear(x=normalised(x), weight=weights(4 * _WIDTH, _WIDTH)), mode="TANH_APPROXIMATION"
            )
            x = mb.add(x=x, y=mb.linear(x=wide, weight=weights(_WIDTH, 4 * _WIDTH)))
        return mb.reduce_mean(x=normalised(x), axes=[1], name="embedding")

    return ct.convert(
        program, minimum_deployment_target=ct.target.iOS17, compute_units=ct.ComputeUnit.CPU_ONLY
    )
