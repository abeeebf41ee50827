"""Models in bundles: finding, naming and reading them.

A model in a bundle is named `PATH#NAME`: `App.ipa#Payload/App.app/Detector.mlmodelc`. The end of its path,
with or without the suffix, is enough if no other model has it: `App.ipa#Detector`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Literal

import msgspec

from coremlscope.base.errors import NotAModelError
from coremlscope.base.scratch import new_scratch
from coremlscope.base.units import shown
from coremlscope.formats.bundles.executorch import looks_like_executorch, read_executorch
from coremlscope.formats.bundles.trees import FolderTree, Tree, Wanted, ZipTree
from coremlscope.formats.compiled.marker import COREMLDATA, ESPRESSO_FILES, PROGRAM_TEXT
from coremlscope.formats.mlpackage import DATA, MANIFEST

BundleKind = Literal["folder", "zip", "pte"]
ModelContainer = Literal["mlmodelc", "mlpackage", "mlmodel", "aimodel"]

_SEPARATOR = "#"
_FOLDER_SUFFIXES: Mapping[str, ModelContainer] = {
    ".mlmodelc": "mlmodelc",
    ".mlpackage": "mlpackage",
    ".aimodel": "aimodel",
}
_SINGLE_FILE = ".mlmodel"
_WHERE = "look for folders that end in .mlmodelc, .mlpackage or .aimodel, and for .mlmodel files"
#: Files by which a compiled model is known whose folder has another suffix.
_COMPILED_FILES = (COREMLDATA, PROGRAM_TEXT, ESPRESSO_FILES[0])
#: The places of extracted models in this process, by archive (path, modification time, size) and path inside.
_EXTRACTED: dict[tuple[Path, int, int, PurePosixPath], Path] = {}
#: The number of models that an error lists.
_LISTED = 8


class FoundModel(msgspec.Struct, frozen=True):
    """A model in a bundle.

    Attributes:
        inside: Its path in the bundle.
        container: Its container.
        size_bytes: The total size of its files.
    """

    inside: PurePosixPath
    container: ModelContainer
    size_bytes: int

    @property
    def name(self) -> str:
        """The name of the model in the bundle."""
        return str(self.inside)


class Bundle:
    """A folder, archive or program with models.

    Attributes:
        path: The path of the bundle.
        kind: What it is.
        models: The models in it, by path.
        unreadable: The folders inside a folder that cannot be read.
    """

    def __init__(self, path: Path, kind: BundleKind, tree: Tree) -> None:
        self.path, self.kind = path, kind
        self._tree = tree
        self.unreadable = tuple(tree.unreadable) if isinstance(tree, FolderTree) else ()
        self.models = tuple(_find(tree))

    def find(self, name: str) -> FoundModel:
        """Finds a model by its path, the end of it, with or without the suffix, or a folder with only it.

        Raises:
            NotAModelError: No model has this name, or several have.
        """
        wanted = PurePosixPath(name.strip("/"))
        count = len(wanted.parts)
        found: list[FoundModel] = []
        for matches in (
            lambda inside: inside == wanted,
            lambda inside: inside.parts[-count:] == wanted.parts,
            lambda inside: inside.parts and inside.with_suffix("").parts[-count:] == wanted.parts,
            lambda inside: any(place.parts[-count:] == wanted.parts for place in inside.parents),
        ):
            found = found or [model for model in self.models if matches(model.inside)]
        if len(found) == 1:
            return found[0]
        if found:
            raise NotAModelError(
                f"{len(found)} models in {self.path} have the name '{shown(name)}'", self._hint(found)
            )
        raise NotAModelError(f"{self.path} contains no model '{shown(name)}'", self._hint(self.models))

    def only(self) -> FoundModel:
        """Returns the only model.

        Raises:
            NotAModelError: There is none, or there are several.
        """
        if len(self.models) == 1:
            return self.models[0]
        if not self.models:
            raise NotAModelError(
                f"{self.path} contains no Core ML model",
                _WHERE,
            )
        raise NotAModelError(f"{self.path} contains {len(self.models)} models", self._hint(self.models))

    def locate(self, model: FoundModel, wanted: Wanted | None = None) -> Path:
        """Returns the path of a model on disk. A model in an archive is extracted, once in this process.

        Extracted files are removed when the process ends.

        Args:
            model: The model.
            wanted: Selects the files to extract; None for all.

        Raises:
            CorruptModelError: The files are damaged or too large, or there are links among them.
        """
        if self._tree.folder is not None:
            return self._tree.folder / model.inside
        status = self.path.stat()
        key = (self.path.resolve(), status.st_mtime_ns, status.st_size, model.inside)
        if wanted is None and key in _EXTRACTED:
            return _EXTRACTED[key]
        target = new_scratch()
        try:
            located = self._extract(model, target, wanted or (lambda _: True))
        except BaseException:
            shutil.rmtree(target, ignore_errors=True)
            raise
        if wanted is None:
            _EXTRACTED[key] = located
        return located

    def _extract(self, model: FoundModel, target: Path, wanted: Wanted) -> Path:
        name = model.inside.name or self.path.stem
        if PurePosixPath(name).suffix not in (*_FOLDER_SUFFIXES, _SINGLE_FILE):
            name = f"{name}.{model.container}"
        place = target / name
        if model.container != "mlmodel":
            place.mkdir()
        self._tree.extract(model.inside, target if model.container == "mlmodel" else place, wanted)
        return place

    def source(self, model: FoundModel) -> Path:
        """Returns the path that names a model: its own on disk, or `PATH#NAME`."""
        if self._tree.folder is not None:
            return self._tree.folder / model.inside
        return Path(f"{self.path}{_SEPARATOR}{model.name}") if model.inside.parts else self.path

    def _hint(self, models: tuple[FoundModel, ...] | list[FoundModel]) -> str:
        if not models:
            return _WHERE
        names = [f"{self.path}{_SEPARATOR}{name}" for name in map(self.short_name, models)]
        more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        return f"name one of {', '.join(names[:_LISTED])}{more}"

    def short_name(self, model: FoundModel) -> str:
        """Returns the shortest end of a model's path that no other model has."""
        parts = model.inside.parts
        for count in range(1, len(parts)):
            same = [other for other in self.models if other.inside.parts[-count:] == parts[-count:]]
            if len(same) == 1:
                return "/".join(parts[-count:])
        return model.name


def open_bundle(path: Path) -> Bundle | None:
    """Opens a folder, zip archive or ExecuTorch program; returns None for other files.

    Raises:
        CorruptModelError: It is damaged or malicious.
        NotAModelError: An ExecuTorch program does not use Core ML.
    """
    if path.is_dir():
        return Bundle(path, "folder", FolderTree(path))
    if not path.is_file():
        return None
    with path.open("rb") as file:
        head = file.read(16)
    if head[:4] == b"PK\x03\x04":
        return Bundle(path, "zip", ZipTree(path))
    if looks_like_executorch(head):
        return Bundle(path, "pte", read_executorch(path))
    return None


def split_name(path: Path) -> tuple[Path, str] | None:
    """Splits `PATH#NAME` into the path of an existing bundle and a name; None if there is no such bundle."""
    text = os.fspath(path)
    for position in (index for index, character in enumerate(text) if character == _SEPARATOR):
        bundle = Path(text[:position])
        if text[position + 1 :] and bundle.exists():
            return bundle, text[position + 1 :].replace(os.sep, "/")
    return None


def _find(tree: Tree) -> Iterator[FoundModel]:
    packages = {path.parent for path in tree.sizes if path.name == MANIFEST}
    # Folders of compiled models with another suffix. Pipelines contain such folders.
    compiled = {path.parent for path in tree.sizes if path.name in _COMPILED_FILES}
    owners: dict[PurePosixPath, tuple[PurePosixPath, ModelContainer] | None] = {}
    found: dict[PurePosixPath, tuple[ModelContainer, int]] = {}
    for path, size in tree.sizes.items():
        folder = path.parent
        if folder not in owners:
            owners[folder] = _owner(folder, packages, compiled)
        owner = owners[folder]
        is_loose = owner is None or (owner[0].suffix not in _FOLDER_SUFFIXES and owner[1] == "mlmodelc")
        if path.suffix == _SINGLE_FILE and is_loose:
            owner = path, "mlmodel"
        if owner is not None:
            place, container = owner
            found[place] = container, size + (found[place][1] if place in found else 0)
    for place in sorted(found):
        yield FoundModel(place, *found[place])


def _owner(
    folder: PurePosixPath, packages: set[PurePosixPath], compiled: set[PurePosixPath]
) -> tuple[PurePosixPath, ModelContainer] | None:
    """Returns the path and container of the outermost model that a folder belongs to."""
    places = [*reversed(folder.parents), folder]
    for place in places:
        container = _FOLDER_SUFFIXES.get(place.suffix)
        if container is not None:
            return place, container
        if place in packages and folder.is_relative_to(place / DATA):
            return place, "mlpackage"
    outermost = next((place for place in places if place in compiled), None)
    return None if outermost is None else (outermost, "mlmodelc")
