"""Detection and reading of containers. Each container has one row; matching is cheap and precedes reading."""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from coremlscope import ir
from coremlscope.errors import ModelError, NotAModelError
from coremlscope.formats.compiled.coremldata import COREMLDATA
from coremlscope.formats.compiled.folder import ESPRESSO_FILES, PROGRAM_TEXT, read_compiled
from coremlscope.formats.compiled.marker import is_own_compiled, locate_source
from coremlscope.formats.compiled.neural_network import is_espresso_file, read_espresso_file
from coremlscope.formats.mlmodel import looks_like_spec, read_mlmodel, read_spec, resolve_weight_name
from coremlscope.formats.mlpackage import MANIFEST, read_archive, read_mlpackage
from coremlscope.formats.weights import WeightStorage

__all__ = ["CONTAINERS", "Container", "read", "sniff"]


@dataclass(frozen=True, slots=True)
class Container:
    """A container format of models.

    Attributes:
        name: The name that `sniff` returns.
        matches: Checks an existing path by its name and first bytes.
        read: Reads a model from a path. Weights are read from the given folder, if any.
    """

    name: str
    matches: Callable[[Path], bool]
    read: Callable[[Path, Path | None], ir.Model]


def _is_compiled(path: Path) -> bool:
    if is_own_compiled(path):
        return True
    markers = (COREMLDATA, PROGRAM_TEXT, *ESPRESSO_FILES)
    return path.is_dir() and (
        path.suffix == ".mlmodelc" or any((path / marker).exists() for marker in markers)
    )


def _is_package(path: Path) -> bool:
    return path.is_dir() and (path.suffix == ".mlpackage" or (path / MANIFEST).exists())


def _is_archive(path: Path) -> bool:
    return path.is_file() and _head(path)[:4] == b"PK\x03\x04"


def _is_spec(path: Path) -> bool:
    return path.is_file() and (path.suffix == ".mlmodel" or looks_like_spec(_head(path)))


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(16)


def _read_compiled(path: Path, weights_dir: Path | None) -> ir.Model:
    if is_own_compiled(path):
        model = _read_path(locate_source(path), weights_dir)
        return dataclasses.replace(model, source=path, container="mlmodelc")
    return read_compiled(path, weights_dir)


#: All containers, in order of precedence.
CONTAINERS: tuple[Container, ...] = (
    Container("mlmodelc", _is_compiled, _read_compiled),
    Container("mlpackage", _is_package, read_mlpackage),
    Container("zip", _is_archive, read_archive),
    Container("espresso", is_espresso_file, read_espresso_file),
    Container("mlmodel", _is_spec, read_mlmodel),
)


def sniff(path: str | os.PathLike[str]) -> str | None:
    """Detects the container of a path: `mlpackage`, `mlmodel`, `zip`, `mlmodelc`, or None for other files."""
    located = Path(path)
    if not located.exists():
        return None
    return next((container.name for container in CONTAINERS if container.matches(located)), None)


def read(source: str | os.PathLike[str] | bytes, weights_dir: Path | None = None) -> ir.Model:
    """Reads a model from a path, or from the bytes of a specification.

    A missing weight file is not an error: the constants in it are then not available.

    Args:
        source: A `.mlpackage` folder, a zip archive of one, a `.mlmodel` file, or a serialised specification.
        weights_dir: A folder with the weight files, instead of the model's own.

    Raises:
        NotAModelError: The path does not exist or is not a Core ML model.
        CorruptModelError: The model is damaged or malicious.
        UnsupportedModelError: The type of model cannot be read.
    """
    if isinstance(source, bytes):
        return read_spec(source, lambda name: _storage_for_bytes(name, weights_dir))
    path = Path(source)
    try:
        return _read_path(path, weights_dir)
    except OSError as error:
        raise ModelError(
            f"{path} cannot be read: {error.strerror or error}", "check the path and its permissions"
        ) from None
    except MemoryError:
        raise ModelError(f"{path} does not fit in memory", "free memory, or use a larger machine") from None


def _read_path(path: Path, weights_dir: Path | None) -> ir.Model:
    if not path.exists():
        raise NotAModelError(f"the path {path} does not exist", _suggest(path))
    for container in CONTAINERS:
        if container.matches(path):
            return container.read(path, weights_dir)
    if path.is_dir():
        raise NotAModelError(f"the folder {path} is not a Core ML model", _suggest_inside(path))
    if not path.is_file():
        raise NotAModelError(f"{path} is not a file", "use a .mlpackage folder or a .mlmodel file")
    return read_mlmodel(path, weights_dir)


def _storage_for_bytes(name: str, weights_dir: Path | None) -> WeightStorage:
    relative = resolve_weight_name(name)
    return WeightStorage(name, None if weights_dir is None else weights_dir / relative.name)


def _suggest(path: Path) -> str:
    """Returns a hint with the most similar existing name."""
    if not path.parent.is_dir():
        return f"the folder {path.parent} does not exist either; check the path"
    names = sorted(entry.name for entry in path.parent.iterdir())
    close = difflib.get_close_matches(path.name, names, n=1, cutoff=0.5)
    close = close or [name for name in names if Path(name).stem == path.stem]
    return f"did you mean {path.parent / close[0]}?" if close else "check the path"


def _suggest_inside(path: Path) -> str:
    """Returns a hint with the name of a model in the folder."""
    suffixes = (".mlpackage", ".mlmodel", ".mlmodelc", ".espresso.net")
    models = sorted(e.name for e in path.iterdir() if e.name.endswith(suffixes))
    return f"did you mean {path / models[0]}?" if models else "use a .mlpackage folder or a .mlmodel file"
