"""Answers the page that opens models: in the browser itself, or in a process of the local server.

Nothing here starts a process or a thread, or imports an engine: see `frontend/playground/`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from coremlscope import api
from coremlscope.api.assemble import assemble
from coremlscope.api.imported import read_any
from coremlscope.api.providers import add_providers
from coremlscope.base.errors import CoremlscopeError, UnsupportedModelError, known_error
from coremlscope.base.findings import Finding
from coremlscope.describe.bundle import describe_bundle
from coremlscope.devices import all_chips, find_devices
from coremlscope.devices.catalog import DEFAULT_DEVICES
from coremlscope.formats.container import open_with_models
from coremlscope.formats.onnx.network import ONNX
from coremlscope.interop.source import is_readable
from coremlscope.model.ir import Model
from coremlscope.planning.answer.comparison import compare_judged
from coremlscope.planning.hazards.summary import describe_model
from coremlscope.reports.json import displayed
from coremlscope.reports.page import page_payload, page_title, to_page_values
from coremlscope.results.encoding import plain
from coremlscope.results.model import BundleSummary
from coremlscope.results.profile import Profile

Chips = Literal["first", "every", "default"]
#: The chips of the first answer, phones first; those of all others take several times as long.
_FIRST = ("a18-pro", "a17-pro", "m4", "m1")
_CHIPS: Mapping[Chips, Callable[[], Sequence[str]]] = {
    "first": lambda: _FIRST,
    # The first ones stay first, so that a page with all shows the same one as before.
    "every": lambda: tuple(dict.fromkeys((*_FIRST, *all_chips()))),
    "default": lambda: DEFAULT_DEVICES,
}


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the page asks.

    Attributes:
        folder: The folder that holds what was dropped.
        paths: Models, apps, archives or saved profiles in it. Two or more are compared.
        chips: Plans and estimates for a few common chips, for every one, or for the default devices.
    """

    folder: str
    paths: tuple[str, ...]
    chips: Chips = "first"


class Answers:
    """Answers questions; keeps the models that it read for the next question on them.

    The folder of a question becomes the current one, so that messages and reports have names without folders.

    Args:
        progress: Called with a sentence on what is being done.
    """

    def __init__(self, progress: Callable[[str], None] = lambda _: None) -> None:
        self._progress = progress
        self._folder = ""
        self._read: dict[str, Model] = {}

    def answer(self, question: str) -> str:
        """Returns the answer to a question as JSON, or an `error` with a `hint`."""
        try:
            found = self.ask(msgspec.json.decode(question, type=Question))
        except Exception as error:  # the page shows it, and goes on
            known = known_error(error)
            found = displayed({"error": known.message, "hint": known.hint})
        return json.dumps(found, ensure_ascii=False, separators=(",", ":"), allow_nan=False)

    def ask(self, question: Question) -> dict[str, Any]:
        """Returns the content of a page (`title`, `payload`, and `more` if other chips can be asked for).

        Of a file with several models it is a list of `models`, of which one is to be chosen.

        Raises:
            CoremlscopeError: There is no answer.
        """
        chips = _CHIPS[question.chips]()
        if question.folder != self._folder:
            os.chdir(question.folder)
            self._folder, self._read = question.folder, {}
        if len(question.paths) == 1:
            (path,) = question.paths
            listing = self._models_in(path)
            if listing is not None:
                models: dict[str, Any] = displayed({"models": plain(listing.models)})
                return models
        opened = [profile for path in question.paths for profile in self._open(path, chips)]
        subject = opened[0] if len(opened) == 1 else tuple(opened)
        if len(question.paths) > 1:
            self._progress("Comparing")
            comparison = compare_judged(opened)
            return page_answer(to_page_values(comparison), page_title(comparison), question.chips)
        has_more = question.chips == "first" and bool(self._read) and any(one.plans for one in opened)
        return page_answer(to_page_values(subject), page_title(subject), question.chips, has_more=has_more)

    def _models_in(self, path: str) -> BundleSummary | None:
        """Returns the models to choose from; None where the path is one model, or no model."""
        if path in self._read or "#" in path or is_readable(path):
            return None
        self._progress("Looking for models")
        bundle = open_with_models(Path(path))
        # One model is read at once: its line in a list would read it as well.
        return None if bundle is None or len(bundle.models) < 2 else describe_bundle(bundle)

    def _open(self, path: str, chips: Sequence[str]) -> Sequence[Profile]:
        if is_readable(path):
            self._progress("Reading the file")
            return read_any(path)
        if path not in self._read:
            self._progress("Reading the model")
            self._read[path] = api.read(path)
        devices = "1 chip" if len(chips) == 1 else f"{len(chips)} chips"
        self._progress(f"Planning and estimating for {devices}")
        return [_forecast(self._read[path], chips)]


def _forecast(model: Model, chips: Sequence[str]) -> Profile:
    """Returns plans and estimates for chips under every setting, or only plans, or only a description."""
    try:
        profile = api.estimate(model, chips, compute_units="every")
        if model.container != ONNX or model.source is None:
            return profile
        return add_providers(profile, model.source, find_devices(chips[:1], None), runs=False)
    except UnsupportedModelError as error:
        finding = _not_estimated(error)
    try:
        profile = api.plan(model, chips, compute_units="every")
    except UnsupportedModelError:
        summary = describe_model(model, list_ops=True)
        return assemble(summary, findings=[finding])
    return msgspec.structs.replace(profile, findings=(finding, *profile.findings))


def _not_estimated(error: CoremlscopeError) -> Finding:
    return Finding(
        id="not-estimated", severity="info", text=f"No estimate: {error.message}.", hint=error.hint
    )


def page_answer(
    values: dict[str, Any], title: str, chips: Chips, *, has_more: bool = False
) -> dict[str, Any]:
    """The content of a page as an answer.

    Args:
        values: The result as plain values for a page.
        title: The title of the page.
        chips: The chips that were asked for.
        has_more: Whether others follow.
    """
    payload = page_payload(values)
    if chips != "default":  # every chip follows by itself, so none is offered
        del payload["chips"]
    return {"title": title, "payload": payload, "more": has_more}
