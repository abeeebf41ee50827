"""The models that people without one at hand can open: built in code, with synthetic weights."""

from __future__ import annotations

import importlib.util
import struct
import tempfile
import zipfile
from pathlib import Path

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
#: The encoder of the documentation, and its size here: small enough for a phone's network.
_NETWORK = Path(__file__).parents[1] / "examples" / "text_encoder" / "network.py"
_SIZE = {"length": 128, "width": 256, "heads": 4, "layers": 4}


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
    spec = importlib.util.spec_from_file_location("network", _NETWORK)
    assert spec is not None
    assert spec.loader is not None
    network = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(network)
    sums = {"TextEncoder.mlpackage": network.running_sums, "TextEncoderMended.mlpackage": network.products}
    for name, sums_of in sums.items():
        converted = network.encoder(sums_of, **_SIZE)
        # No date, no random identifiers, and maps in their order: equal sources give equal files.
        del converted.user_defined_metadata["com.github.apple.coremltools.conversion_date"]
        saved = folder / "converted" / name
        converted.save(str(saved))
        (file,) = saved.rglob("model.mlmodel")
        file.write_bytes(converted.get_spec().SerializeToString(deterministic=True))
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
