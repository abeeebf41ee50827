"""The files of a Core AI model: `.aimodel` folders, and what is not one but is taken for one.

`metadata.json` describes the model, `main.mlirb` holds the program with its weights, and `main.hash` the
SHA-256 of that file. (Source: bundles that coreai-core 1.0.0b3 wrote.)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from coremlscope.base.errors import CorruptModelError, UnsupportedModelError
from coremlscope.base.units import shown
from coremlscope.formats.weights import WeightStorage
from coremlscope.model import ir

PROGRAM = "main.mlirb"
_HASH = "main.hash"
_METADATA = "metadata.json"
_SUFFIX, _COMPILED_SUFFIX = ".aimodel", ".aimodelc"
_MOST_METADATA_BYTES = 4 << 20
_DIGEST_BYTES = 32
_CHUNK_BYTES = 8 << 20

_INCOMPLETE = "the bundle is incomplete; copy or download the whole folder again"


class AssetMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """The description of a bundle in its metadata.

    Attributes:
        asset_version: The version of the bundle's format: `2.0`.
        producer: The program that wrote it; empty for bundles of coreai-torch 0.4.0, which did not tell.
        metadata: The author's information.
    """

    asset_version: str = ""
    producer: str = ""
    metadata: ir.Metadata = msgspec.field(default_factory=ir.Metadata)


def is_bundle(path: Path) -> bool:
    """Checks whether a path is a Core AI model: `.aimodel`, `.aimodelc`, or a folder with such a program."""
    return path.is_dir() and (path.suffix in (_SUFFIX, _COMPILED_SUFFIX) or (path / PROGRAM).is_file())


def is_language_bundle(path: Path) -> bool:
    """Checks whether a folder is a language model: `metadata.json` names the bundle beside the tokenizer."""
    if not path.is_dir() or path.suffix in (_SUFFIX, _COMPILED_SUFFIX) or not (path / _METADATA).is_file():
        return False
    try:
        return bool(_text(_object(_read_object(path).get("assets")).get("main")))
    except CorruptModelError:
        return False


def open_language_bundle(path: Path) -> tuple[Path, dict[str, str]]:
    """Returns the bundle of a language model, and what its folder says of it.

    Raises:
        CorruptModelError: The bundle is missing, or is not in the folder.
    """
    content = _read_object(path)
    name = _text(_object(content.get("assets")).get("main"))
    asset = path / name
    if Path(name).name != name or not is_bundle(asset):
        raise CorruptModelError(f"the folder {path} has no bundle {shown(name)}", _INCOMPLETE)
    details = {f"language.{key}": _text(value) for key, value in _object(content.get("language")).items()}
    return asset, {key: value for key, value in details.items() if value}


def find_compiled(path: Path) -> list[str]:
    """Returns the architectures for which a folder holds compiled programs: `h18p` of `main-h18p.mlirb`."""
    names = (file.stem.partition("-")[2] for file in path.glob("main-*.mlirb"))
    return sorted(shown(name) for name in names if name)


def open_program(path: Path) -> tuple[WeightStorage, str]:
    """Opens the program of a bundle, and compares it with its hash.

    Returns:
        The file, and a remark if the bundle has no hash.

    Raises:
        CorruptModelError: The program is missing, or is not the one that was written.
        UnsupportedModelError: The bundle is compiled for devices.
    """
    file = path / PROGRAM
    if not file.is_file():
        compiled = find_compiled(path)
        if compiled or path.suffix == _COMPILED_SUFFIX:
            raise UnsupportedModelError(
                f"{path} is compiled for {', '.join(compiled) or 'devices'}; its format is not published",
                "use the .aimodel bundle that it was compiled from",
            )
        raise CorruptModelError(f"{PROGRAM} is missing in the bundle {path}", _INCOMPLETE)
    storage = WeightStorage(PROGRAM, file)
    if not storage.size:
        raise CorruptModelError(
            f"{PROGRAM} in the bundle {path} is empty or a Git LFS pointer",
            "download the bundle again; `git lfs pull` fetches files of a Git repository",
        )
    declared = path / _HASH
    if not declared.is_file():
        return storage, f"the bundle has no {_HASH}, so its program was not checked"
    if declared.stat().st_size != _DIGEST_BYTES or declared.read_bytes() != _digest(file):
        raise CorruptModelError(
            f"{PROGRAM} in the bundle {path} does not match {_HASH}",
            "the program is damaged or was changed; export or download the model again",
        )
    return storage, ""


def _digest(file: Path) -> bytes:
    digest = hashlib.sha256()
    with file.open("rb") as content:
        while chunk := content.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.digest()


def read_metadata(path: Path) -> AssetMetadata:
    """Reads the metadata of a bundle; a bundle without them has none.

    Raises:
        CorruptModelError: They are not a JSON object.
    """
    file = path / _METADATA
    if not file.is_file():
        return AssetMetadata()
    content = _read_object(path)
    custom = {f"custom.{key}": value for key, value in _object(content.get("custom")).items()}
    named = {key: content.get(key) for key in ("creationDate", "assetVersion", "producer")}
    return AssetMetadata(
        asset_version=_text(content.get("assetVersion")),
        producer=_text(content.get("producer")),
        metadata=ir.Metadata(
            description=_text(content.get("description")),
            author=_text(content.get("author")),
            licence=_text(content.get("license")),
            user_defined={key: _text(value) for key, value in {**named, **custom}.items() if value},
        ),
    )


def _read_object(path: Path) -> Mapping[str, Any]:
    file = path / _METADATA
    if file.stat().st_size > _MOST_METADATA_BYTES:
        raise CorruptModelError(f"{_METADATA} in the bundle {path} is too large", _INCOMPLETE)
    try:
        content = json.loads(file.read_bytes())
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise CorruptModelError(f"{_METADATA} in the bundle {path} is not a JSON object", _INCOMPLETE)
    return content


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)
