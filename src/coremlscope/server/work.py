"""What a child process does for the page: answers on models, their profiles on this machine, predictions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import msgspec

from coremlscope.devices.catalog import DEFAULT_DEVICES
from coremlscope.model.features.images import Resize
from coremlscope.reports.page import page_title, to_page_values
from coremlscope.results.encoding import plain
from coremlscope.server.browser import Answers, Question, page_answer

if TYPE_CHECKING:
    from coremlscope.measure.contract import Progress


class SentInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file with the value of an input.

    Attributes:
        input: The name of the input.
        name: The name of the file.
        size: Its size in bytes.
        typed: Whether a person typed the content.
    """

    input: str
    name: str
    size: int
    typed: bool = False

    def file_name(self, place: int) -> str:
        """Returns the name to write it under: a name that comes from a stranger gives its suffix alone."""
        suffix = PurePath(self.name).suffix.lower()
        return f"input-{place}{suffix if suffix[1:].isalnum() and len(suffix) < 8 else ''}"


def answer(*, folder: str, paths: Sequence[str], progress: Progress) -> dict[str, Any]:
    """Returns the page of one model, or of the comparison of several, for the default devices.

    Args:
        folder: What was opened.
        paths: Models in it.
        progress: Called with what is being done.
    """
    answers = Answers(lambda text: progress(text, 0, 0))
    return answers.ask(Question(folder, tuple(paths), "default"))


def profile(*, folder: str, path: str, progress: Progress) -> dict[str, Any]:
    """Returns the page of a model with its time on this machine.

    Args:
        folder: What was opened.
        path: The model in it.
        progress: Called with the phase, and the repetitions of it that are done.
    """
    from coremlscope import api

    os.chdir(folder)
    progress("Planning and estimating", 0, 0)
    found = api.profile(
        path, devices=DEFAULT_DEVICES, engine="onnxruntime", progress=progress, keeps_failed=True
    )
    return page_answer(to_page_values(found), page_title(found), "default")


def predict(
    *,
    folder: str,
    path: str,
    inputs: Sequence[tuple[SentInput, Path]],
    resize: Resize,
    rate_Hz: int,  # noqa: N803
    progress: Progress,
) -> dict[str, Any]:
    """Returns what a model makes of files, as `Preview`.

    Args:
        folder: What was opened.
        path: The model in it.
        inputs: Values of inputs, each with its file.
        resize: How pictures of another size are resized.
        rate_Hz: The sample rate that the model takes sounds at.
        progress: Called with what is being done.
    """
    from coremlscope.reports.preview.predict import GivenFile, preview_files

    os.chdir(folder)
    progress("Running the model", 0, 0)
    files = [GivenFile(one.input, file, "typed" if one.typed else one.name) for one, file in inputs]
    shown: dict[str, Any] = plain(preview_files(Path(path), files, resize, rate_Hz))
    return shown
