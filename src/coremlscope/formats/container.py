"""Detection and reading of containers. Each container has one row; matching is cheap and precedes reading."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import msgspec.structs

from coremlscope.base.errors import CorruptModelError, ModelError, NotAModelError, UsageError
from coremlscope.base.folders import similar_path
from coremlscope.formats.compiled.marker import (
    COREMLDATA,
    ESPRESSO_FILES,
    PROGRAM_TEXT,
    is_espresso_file,
    is_own_compiled,
    is_program_file,
    locate_source,
)
from coremlscope.formats.mlmodel import (
    MAX_SPEC_BYTES,
    looks_like_spec,
    read_mlmodel,
    read_spec,
    resolve_weight_name,
)
from coremlscope.formats.mlpackage import MANIFEST, read_mlpackage
from coremlscope.formats.weights import WeightStorage
from coremlscope.model import ir

if TYPE_CHECKING:
    from coremlscope.formats.bundles import Bundle, FoundModel
    from coremlscope.formats.bundles.trees import Wanted

# Most models are packages and files of them. The readers of others are imported when such a model is read.


ONNX_SUFFIX = ".onnx"


class Container(msgspec.Struct, frozen=True):
    """A container format of models.

    Attributes:
        name: The name that `sniff` returns.
        matches: Checks an existing path by its name and first bytes.
        read: Reads a model from a path.
    """

    name: str
    matches: Callable[[Path], bool]
    read: Callable[[Path], ir.Model]


def _open_bundle(path: Path) -> Bundle | None:
    from coremlscope.formats.bundles import open_bundle

    return open_bundle(path)


def split_name(path: Path) -> tuple[Path, str] | None:
    """Splits `PATH#NAME` into the path of an existing bundle and a name; None if there is no such bundle."""
    from coremlscope.formats import bundles

    return bundles.split_name(path)


def _is_expression(path: Path) -> bool:
    from coremlscope.formats.expressions.parsing import is_expression

    return is_expression(path)


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


def _is_gzip(path: Path) -> bool:
    return path.is_file() and _head(path)[:2] == b"\x1f\x8b"


def _is_aimodel(path: Path) -> bool:
    if not path.is_dir():
        return False
    from coremlscope.formats.aimodel.bundle import is_bundle

    return is_bundle(path)


def _is_language_bundle(path: Path) -> bool:
    if not path.is_dir():
        return False
    from coremlscope.formats.aimodel.bundle import is_language_bundle

    return is_language_bundle(path)


def _is_onnx(path: Path) -> bool:
    return path.suffix == ONNX_SUFFIX and path.is_file()


def _is_executorch(path: Path) -> bool:
    if not path.is_file() or _head(path)[4:6] != b"ET":
        return False
    from coremlscope.formats.bundles.executorch import looks_like_executorch

    return looks_like_executorch(_head(path))


def _is_app(path: Path) -> bool:
    return path.suffix in _APP_SUFFIXES and path.is_dir()


def _is_spec(path: Path) -> bool:
    return path.is_file() and (path.suffix == ".mlmodel" or looks_like_spec(_head(path)))


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(16)


def _read_compiled(path: Path) -> ir.Model:
    if is_own_compiled(path):
        model = _read_path(locate_source(path))
        return msgspec.structs.replace(model, source=path, container="mlmodelc")
    from coremlscope.formats.compiled.folder import read_compiled

    return read_compiled(path)


def _read_espresso(path: Path) -> ir.Model:
    from coremlscope.formats.compiled.neural_network import read_espresso_file

    return read_espresso_file(path)


def _read_program(path: Path) -> ir.Model:
    from coremlscope.formats.compiled.ml_program import read_program_file

    return read_program_file(path)


def _read_zip(path: Path) -> ir.Model:
    from coremlscope.formats.zipped_package import read_archive

    bundle = _open_bundle(path)
    if bundle is None or not bundle.models:
        return read_archive(path)
    return read_found(bundle, bundle.only())


def _read_bundle(path: Path) -> ir.Model:
    bundle = _open_bundle(path)
    if bundle is None:
        raise NotAModelError(f"{path} is not a file or folder", "check the path")
    return read_found(bundle, bundle.only())


def read_found(bundle: Bundle, model: FoundModel, wanted: Wanted | None = None) -> ir.Model:
    """Reads a model in a bundle.

    Args:
        bundle: The bundle.
        model: One of its models.
        wanted: Selects the files to extract; None for all.

    Raises:
        ModelError: The model cannot be read.
    """
    source = bundle.source(model)
    if bundle.kind == "zip" and model.container == "mlpackage":
        from coremlscope.formats.zipped_package import read_archive

        read_model = read_archive(bundle.path, model.inside)
    else:
        located = bundle.locate(model, wanted)
        if bundle.kind != "folder" and sniff(located) in _ARCHIVES:
            raise CorruptModelError(
                f"{source} is an archive inside an archive", "unpack the outer one, if you trust its author"
            )
        try:
            read_model = _read_path(located)
        except ModelError as error:
            # The user knows the name of the model, not the folder to which it was extracted.
            error.message = error.message.replace(str(located), str(source))
            error.args = (error.message,)
            raise
    return msgspec.structs.replace(read_model, source=source)


def _read_aimodel(path: Path) -> ir.Model:
    from coremlscope.formats.aimodel.reader import read_aimodel

    return read_aimodel(path)


def _read_language_bundle(path: Path) -> ir.Model:
    from coremlscope.formats.aimodel.reader import read_language_bundle

    return read_language_bundle(path)


def _read_gzip(path: Path) -> ir.Model:
    if path.name.endswith((".tar.gz", ".tgz")):
        raise NotAModelError(f"{path} is a gzip archive of a tar archive", "unpack it first")
    from coremlscope.formats.archives import read_gzip

    def open_storage(name: str) -> WeightStorage:
        return WeightStorage(name, path.parent / resolve_weight_name(name))

    return read_spec(read_gzip(path, MAX_SPEC_BYTES), open_storage, source=path)


def _read_onnx(path: Path) -> ir.Model:
    from coremlscope.formats.onnx.model import read_onnx_model

    return read_onnx_model(path)


#: The suffixes of folders that are read like a model if they contain only one.
_APP_SUFFIXES = (".app", ".appex", ".bundle", ".framework", ".xcarchive", ".xcframework")

#: All containers, in order of precedence.
CONTAINERS: tuple[Container, ...] = (
    Container("mlmodelc", _is_compiled, _read_compiled),
    Container("mlpackage", _is_package, read_mlpackage),
    Container("aimodel", _is_aimodel, _read_aimodel),
    Container("language model", _is_language_bundle, _read_language_bundle),
    Container("app", _is_app, _read_bundle),
    Container("zip", _is_archive, _read_zip),
    Container("espresso", is_espresso_file, _read_espresso),
    Container("mil", is_program_file, _read_program),
    Container("gzip", _is_gzip, _read_gzip),
    Container("onnx", _is_onnx, _read_onnx),
    Container("pte", _is_executorch, _read_bundle),
    Container("mlmodel", _is_spec, read_mlmodel),
)
#: The containers whose content is unpacked, which must not be inside each other: budgets would multiply.
_ARCHIVES = ("zip", "gzip", "pte")
#: The containers that may hold several models.
_BUNDLES = ("app", "language model", "zip", "pte")


def sniff(path: str | os.PathLike[str]) -> str | None:
    """Detects the container of a path: a name in `CONTAINERS`, or None for other files and folders."""
    located = Path(path)
    if not located.exists():
        return None
    return next((container.name for container in CONTAINERS if container.matches(located)), None)


def open_with_models(path: Path) -> Bundle | None:
    """Opens an app, archive, folder or ExecuTorch program; returns None for a path that is itself a model.

    Raises:
        ModelError: It is damaged or cannot be read.
    """
    with _file_errors(path):
        name = sniff(path)
        if name not in _BUNDLES and (name is not None or not path.is_dir()):
            return None
        return _open_bundle(path)


def on_disk(path: Path) -> Path:
    """Returns the path of a model's own file or folder. A model in an archive or app is extracted, and the
    layer of an expression written.

    Raises:
        ModelError: The archive or app contains no such model, is damaged, or would not fit on the disk.
    """
    named = None if path.exists() else split_name(path)
    if named is None and not path.exists() and _is_expression(path):
        from coremlscope.formats.expressions.reading import write_expression

        return write_expression(path)
    if named is None and sniff(path) not in _BUNDLES:
        return path
    with _file_errors(path):
        bundle = _open_bundle(path if named is None else named[0])
        if bundle is None:
            return path
        return bundle.locate(bundle.only() if named is None else bundle.find(named[1]))


def path_of(source: object) -> Path:
    """Returns the path of a model that a program gave.

    Raises:
        UsageError: It is no path, but a list of them, for instance.
    """
    if isinstance(source, (str, os.PathLike)):
        return Path(source)
    several = isinstance(source, (list, tuple, set, frozenset))
    raise UsageError(
        f"a model is given by its path, not by an object of the type {type(source).__name__}",
        "give several models as arguments of their own: compare(*models)" if several else "pass a string",
    )


def read(source: str | os.PathLike[str] | bytes) -> ir.Model:
    """Reads a model from a path, or from the bytes of a specification.

    A missing weight file is not an error: the constants in it are then not available.

    Args:
        source: A `.mlpackage` or `.mlmodelc` folder, a zip archive of one, a `.mlmodel` file, a serialised
            specification, or the expression of a layer, `conv(kernel=3)`. An app, archive or ExecuTorch
            program with one model, or `PATH#NAME` for one of several models.

    Raises:
        NotAModelError: The path does not exist or is not a Core ML model.
        CorruptModelError: The model is damaged or malicious.
        UnsupportedModelError: The type of model cannot be read.
        UsageError: The source is neither a path nor bytes.
    """
    if isinstance(source, bytes):
        return read_spec(source, _absent_storage)
    path = path_of(source)
    with _file_errors(path):
        return _read_path(path)


@contextlib.contextmanager
def _file_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ModelError(
            f"{path} cannot be read: {error.strerror or error}", "check the path and its permissions"
        ) from None
    except MemoryError:
        raise ModelError(f"{path} does not fit in memory", "free memory, or use a larger machine") from None


def _read_path(path: Path) -> ir.Model:
    if not path.exists():
        named = split_name(path)
        if named is None and _is_expression(path):
            from coremlscope.formats.expressions.reading import read_expression

            return read_expression(path)
        if named is None:
            raise _missing(path)
        bundle = _open_bundle(named[0])
        if bundle is None:
            raise NotAModelError(f"{named[0]} contains no other models", "leave the name after # out")
        return read_found(bundle, bundle.find(named[1]))
    for container in CONTAINERS:
        if container.matches(path):
            return container.read(path)
    if path.is_dir():
        raise NotAModelError(f"the folder {path} is not a Core ML model", _suggest_inside(path))
    if not path.is_file():
        raise NotAModelError(f"{path} is not a file", "use a .mlpackage folder or a .mlmodel file")
    return read_mlmodel(path)


def _absent_storage(name: str) -> WeightStorage:
    resolve_weight_name(name)
    return WeightStorage(name, None)


def _missing(path: Path) -> NotAModelError:
    """Returns the error for a path where nothing is, or a link to nothing."""
    if path.is_symlink():
        return NotAModelError(
            f"{path} is a link to {path.readlink()}, which cannot be followed", "check the link"
        )
    return NotAModelError(f"the path {path} does not exist", _suggest(path))


def _suggest(path: Path) -> str:
    """Returns a hint with the most similar existing name."""
    if not path.parent.is_dir():
        return f"the folder {path.parent} does not exist either; check the path"
    # What macOS 13 and older leave of a file that only iCloud holds; newer ones fetch it as it is read.
    # (Source: eclecticlight.co/2023/10/25/macos-sonoma-has-changed-icloud-drive-radically.)
    if path.with_name(f".{path.name}.icloud").exists():
        return "only iCloud holds it: download it in Finder first"
    near = similar_path(path)
    return f"did you mean {near}?" if near else "check the path"


def _suggest_inside(path: Path) -> str:
    """Returns a hint with the models in the folder."""
    try:
        bundle = _open_bundle(path)
    except ModelError:  # It has too many files.
        bundle = None
    models = () if bundle is None else bundle.models
    if not models:
        loose = sorted(entry.name for entry in path.glob("*.espresso.net"))
        return f"did you mean {path / loose[0]}?" if loose else "use a .mlpackage folder or a .mlmodel file"
    if len(models) == 1:
        return f"did you mean {path / models[0].inside}?"
    return f"it contains {len(models)} models, which `coremlscope inspect {shlex.quote(str(path))}` lists"
