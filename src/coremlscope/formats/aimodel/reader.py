"""Reading of Core AI models: by our reader, or by coreai-core where ours knows too little."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from coremlscope.base.errors import (
    CoremlscopeError,
    CorruptModelError,
    EngineError,
    LimitError,
    UnsupportedModelError,
    how_to_install,
)
from coremlscope.base.processes.child import ChildLimits, Task, python_child, run_child
from coremlscope.base.processes.endings import Failures
from coremlscope.base.scratch import scratch_folder
from coremlscope.base.units import shown
from coremlscope.formats.aimodel.bundle import (
    PROGRAM,
    find_compiled,
    open_language_bundle,
    open_program,
    read_metadata,
)
from coremlscope.formats.aimodel.bytecode import VERSIONS, read_versions
from coremlscope.formats.aimodel.compiled_bundle import read_compiled_bundle
from coremlscope.formats.aimodel.content import Content, read_content
from coremlscope.formats.aimodel.encoding import DIALECT, KNOWN_VERSION
from coremlscope.formats.aimodel.rewritten import read_rewritten
from coremlscope.formats.weights import WeightStorage
from coremlscope.model import ir

OWN_READER = "coremlscope's reader"
#: The command that rewrites a bundle, without the paths.
REWRITING = python_child("coremlscope.formats.aimodel.rewriting_child", "rewrite")
#: Seconds that coreai-core may take, and seconds for each gigabyte of the file. ResNet-50 takes 0.6 s.
_TIME_S, _TIME_PER_GB_S = 120.0, 60.0
_INSTALL = f"{how_to_install('coreai')} also reads bundles by Apple's coreai-core, on Linux and macOS"
_LISTED = 3
_REWRITING_TASK = Task("coreai-core", "update coremlscope and coreai-core", Failures("coreai-core"))


class OpenedProgram(msgspec.Struct, frozen=True, kw_only=True):
    """The program of a bundle.

    Attributes:
        content: The program.
        reader: What read it, and why where it is not our reader: `coreai-core 1.0.0b3, because …`.
        remarks: What was not checked, or is not known.
    """

    content: Content
    reader: str
    remarks: tuple[str, ...] = ()


def read_aimodel(path: Path) -> ir.Model:
    """Reads an `.aimodel` bundle.

    Args:
        path: The bundle.

    Raises:
        CorruptModelError: The bundle is incomplete, or its program is damaged or was changed.
        UnsupportedModelError: The version of its program cannot be read.
    """
    if find_compiled(path) and not (path / PROGRAM).is_file():
        return read_compiled_bundle(path)
    # Imports the operations, which take long to load.
    from coremlscope.formats.aimodel.interface import DYNAMIC_SIZE, describe
    from coremlscope.formats.aimodel.network import translate

    try:
        opened = open_content(path)
        content, found = opened.content, read_metadata(path)
        program = translate(content)
    except CorruptModelError as error:
        message = error.message if str(path) in error.message else f"{error.message} ({PROGRAM} of {path})"
        raise CorruptModelError(message, error.hint) from None
    remarks = list(opened.remarks)
    if not found.producer:
        remarks.append("the bundle names no producer: beta 2 and later of the systems of 2026 reject it")
    if _is_dynamic(content):
        remarks.append(
            f"the file has no limits of variable sizes; {DYNAMIC_SIZE} is used where none is given"
        )
    return ir.Model(
        spec_version=0,
        description=describe(content),
        content=program,
        metadata=found.metadata,
        source=path,
        container="aimodel",
        reader=opened.reader,
        size_bytes=sum(file.stat().st_size for file in path.rglob("*") if file.is_file()),
        remarks=tuple(remarks),
    )


def read_language_bundle(path: Path) -> ir.Model:
    """Reads the bundle of a language model, whose folder also holds its tokenizer.

    Raises:
        ModelError: As for `read_aimodel`.
    """
    asset, details = open_language_bundle(path)
    model = read_aimodel(asset)
    metadata = replace(model.metadata, user_defined={**model.metadata.user_defined, **details})
    return replace(model, metadata=metadata)


def _is_dynamic(content: Content) -> bool:
    types = [
        feature.type for graph in content.graphs.values() if not graph.is_private for feature in graph.inputs
    ]
    return any(isinstance(type_, ir.TensorType) and not type_.is_static for type_ in types)


def open_content(path: Path, command: Sequence[str] | None = None) -> OpenedProgram:
    """Reads the program of a bundle.

    Where our reader does not know its version or an encoding, coreai-core reads it, if it is installed.

    Args:
        path: The bundle.
        command: The child process that rewrites it for us; tests give another one.

    Raises:
        CorruptModelError: The bundle is incomplete, or its program is damaged or was changed.
        UnsupportedModelError: The bundle is compiled for devices, or neither reader can read it.
        NotAModelError: The program is not MLIR bytecode.
    """
    storage, remark = open_program(path)
    remarks = (remark,) if remark else ()
    reason, content, error = _read_ourselves(storage)
    if not reason:
        if content is None:
            assert error is not None
            raise error
        return OpenedProgram(content=content, reader=OWN_READER, remarks=remarks)
    try:
        theirs, version = _rewrite(path, storage.size or 0, command)
    except UnsupportedModelError as problem:
        if content is None:
            raise UnsupportedModelError(f"{reason}, and {problem.message}", problem.hint) from None
        remark = f"{reason}; what it means is not known, and {problem.message}"
        return OpenedProgram(content=content, reader=OWN_READER, remarks=(*remarks, remark))
    return OpenedProgram(content=theirs, reader=f"coreai-core {version}, because {reason}", remarks=remarks)


def _read_ourselves(storage: WeightStorage) -> tuple[str, Content | None, CoremlscopeError | None]:
    """Returns why coreai-core is needed (empty if it is not), what we read, and why we read nothing."""
    bytecode, dialects = read_versions(storage.read(0, storage.size or 0, "the program"))
    reason = ""
    if bytecode not in VERSIONS:
        return f"version {bytecode} of MLIR bytecode is not known", None, None
    version = dialects.get(DIALECT)
    if version is not None and version > KNOWN_VERSION:
        reason = f"version {version} of the dialect {DIALECT} is not known"
    try:
        content = read_content(storage)
    except (CorruptModelError, UnsupportedModelError) as error:
        return reason, None, error
    if content.unknown and not reason:
        names = sorted(content.unknown)
        more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        reason = f"encodings are not known: {shown(', '.join(names[:_LISTED]))}{more}"
    return reason, content, None


def _rewrite(path: Path, size: int, command: Sequence[str] | None) -> tuple[Content, str]:
    """Lets coreai-core write the program again, and reads the result.

    Raises:
        UnsupportedModelError: It is not installed, or did not manage.
    """
    if command is None and importlib.util.find_spec("coreai") is None:
        raise UnsupportedModelError("coreai-core is not installed", _INSTALL)
    limit_s = _TIME_S + _TIME_PER_GB_S * size / 1e9
    limits = ChildLimits(silence_s=math.inf, time_s=limit_s)
    failure = UnsupportedModelError("coreai-core could not read it", "update coremlscope and coreai-core")
    with scratch_folder() as name:
        try:
            with run_child([*(command or REWRITING), str(path.resolve()), name], limits, _REWRITING_TASK):
                pass
        except LimitError as error:
            raise UnsupportedModelError(error.message, failure.hint) from None
        except (OSError, EngineError):
            raise failure from None
        try:
            return read_rewritten(Path(name))
        except (CoremlscopeError, OSError, ValueError, LookupError):
            raise failure from None
