"""Previews of inputs on the models of profiles: files of a request, run in a process with limits."""

from __future__ import annotations

import os
import shutil
from http import HTTPStatus
from pathlib import Path, PurePath

import msgspec
from msgspec.structs import replace

from coremlscope.base.errors import CoremlscopeError, UsageError
from coremlscope.base.processes.child import ChildLimits
from coremlscope.base.writing import write_draft
from coremlscope.measure.embedded.process import call_isolated
from coremlscope.model.features.images import DEFAULT_RESIZE, RESIZES, Resize
from coremlscope.reports.preview.predict import GivenFile, preview_files
from coremlscope.results.preview import Preview
from coremlscope.server.kept_models import KeptModels
from coremlscope.server.responses import RefusedError
from coremlscope.server.store import safe_name
from coremlscope.server.uploads import Uploads

#: Bytes of all files of a preview, seconds that one may take, and files at most.
MOST_BYTES = 64 << 20
_LONGEST_S = 120.0
_MOST_PARTS = 64
#: The sample rates that models take, in Hz.
_RATES = range(1000, 192_001)


class UploadedInput(msgspec.Struct, forbid_unknown_fields=True):
    """A file in the body of a request.

    Attributes:
        input: The name of the input.
        name: The name of the file.
        size: Its size in bytes; the files follow each other in the body.
        typed: Whether a person typed the content.
    """

    input: str
    name: str
    size: int
    typed: bool = False


class PreviewRequest(msgspec.Struct, frozen=True):
    """A request for a preview.

    Attributes:
        parts: The files in the body.
        resize: How pictures of another size are resized.
        rate_Hz: The sample rate that the model takes sounds at.
    """

    parts: tuple[UploadedInput, ...]
    resize: Resize
    rate_Hz: int  # noqa: N815


def parse_request(parts: str, resize: str, rate: str, size: int) -> PreviewRequest:
    """Reads the query of a request.

    Args:
        parts: The files in the body, as JSON: a list of `UploadedInput`.
        resize: A way to resize pictures; empty for that of `predict`.
        rate: A sample rate in Hz; empty for the usual one.
        size: The size of the body in bytes.

    Raises:
        UsageError: Something is invalid, or does not fit the body.
        RefusedError: The files are too large.
    """
    if size > MOST_BYTES:
        raise RefusedError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"the files have {size >> 20} MB, but the limit is {MOST_BYTES >> 20} MB",
            "use smaller files, or `coremlscope predict`",
        )
    try:
        read = msgspec.json.decode(parts, type=list[UploadedInput])
    except (RecursionError, UnicodeError, msgspec.DecodeError) as error:
        raise UsageError(f"the list of files is not valid: {error}") from None
    if len(read) > _MOST_PARTS or any(part.size < 0 for part in read) or sum(p.size for p in read) != size:
        raise UsageError("the list of files does not fit what was sent", "reload the page")
    how = next((known for known in RESIZES if known == (resize or DEFAULT_RESIZE)), None)
    if how is None:
        raise UsageError(f"invalid resize mode {resize[:20]!r}", f"use one of {', '.join(RESIZES)}")
    if not (rate or "16000").isdecimal() or int((rate or "16000")[:9]) not in _RATES:
        raise UsageError(f"invalid sample rate {rate[:20]!r}", "give it in Hz: 16000")
    return PreviewRequest(tuple(read), how, int(rate or "16000"))


class Previews:
    """Makes previews.

    Args:
        models: The models of profiles.
        uploads: Where files are written.
        limits: When to give up.
    """

    def __init__(self, models: KeptModels, uploads: Uploads, limits: ChildLimits) -> None:
        time_s = _LONGEST_S if limits.time_s is None else min(limits.time_s, _LONGEST_S)
        self._models, self._uploads, self._limits = models, uploads, replace(limits, time_s=time_s)

    def make(self, id_: str, request: PreviewRequest, body: bytes) -> Preview:
        """Makes a preview, in a process of its own.

        Args:
            id_: The profile of the model.
            request: What is asked for.
            body: The files, one after the other.

        Raises:
            UsageError: The model is not on the server.
            CoremlscopeError: The model cannot be run, or a file does not hold a value of its input.
        """
        folder = self._uploads.new_folder()
        try:
            return self._make(folder, id_, request, body)
        except CoremlscopeError as error:
            # The paths of kept files are not shown.
            error.message = error.message.replace(f"{folder}{os.sep}", "")
            raise
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _make(self, folder: Path, id_: str, request: PreviewRequest, content: bytes) -> Preview:
        model = self._models.link(id_, folder)
        if model is None:
            raise UsageError(
                "the model of this profile is not on the server",
                "upload the model again, or use `coremlscope predict`",
            )
        files, start = [], 0
        for number, part in enumerate(request.parts):
            # The name of a file comes from a stranger: only its suffix is used.
            path = folder / f"input-{number}{PurePath(safe_name(part.name)).suffix.lower()}"
            write_draft(path, content[start : start + part.size])
            start += part.size
            files.append(GivenFile(part.input, path, "typed" if part.typed else part.name))
        found: Preview = call_isolated(
            preview_files,
            {"model": model, "files": files, "resize": request.resize, "rate_Hz": request.rate_Hz},
            limits=self._limits,
        )
        return found
