"""Recorded functions: one row for each function whose calls become events.

A row names the module and the function, and says how to describe a call. `before` sees the arguments before
the function changes them, `after` also the result. All of this runs inside recorded programs, so it must be
quick.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msgspec

from coremlscope.dropin.tracing.call import NUMBER, Call
from coremlscope.dropin.tracing.facts import facts_of_coremltools, facts_of_predictor, facts_of_session
from coremlscope.dropin.tracing.values import describe_value
from coremlscope.results.events import EVENT_KINDS, KIND_CODES

#: The module whose conversions are observed.
CONVERSIONS = "coremlscope.model.features.tensors"


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """A function whose calls are recorded.

    Attributes:
        module: The module that defines it, or through which it is called.
        name: Its qualified name in that module.
        kind: The name of its kind of event.
        kind_when_nested: The kind of a call inside another activity; empty for the same.
        is_outermost: Whether calls inside other activities are left out.
        before: Describes a call before it is made.
        after: Describes a call that returned.
        wrapper: What wraps the function: `call` here, or a function of `predictions.WRAPPERS`.
        data: Where a prediction finds its inputs: their position, `self` included, and their name.
        session: What it does with a session of ONNX Runtime, which can record operations; empty for others.
        is_activity: Whether the kind is shown in the lane of activities.
        code: The code of the kind.
        nested_code: The code of the kind of a nested call.
    """

    module: str
    name: str
    kind: str
    kind_when_nested: str = ""
    is_outermost: bool = False
    before: Callable[[Call], None] | None = None
    after: Callable[[Call], None] | None = None
    wrapper: Literal["call", "prediction", "checks"] = "call"
    data: tuple[int, str] = (0, "")
    session: Literal["make", "run", ""] = ""
    is_activity: bool = False
    code: int = 0
    nested_code: int = 0

    def __post_init__(self) -> None:
        code = KIND_CODES[self.kind]
        msgspec.structs.force_setattr(self, "is_activity", EVENT_KINDS[code].lane == "activity")
        msgspec.structs.force_setattr(self, "code", code)
        msgspec.structs.force_setattr(self, "nested_code", KIND_CODES[self.kind_when_nested or self.kind])


def _loaded_with(
    facts_of: Callable[[Any, Call], dict[str, Any] | None], owner: int = 0
) -> Callable[[Call], None]:
    """Returns a function that stores the facts of a model that a call loaded.

    Args:
        facts_of: Returns the facts, or None if nothing was loaded.
        owner: The position of the loaded object among the arguments; −1 for the result.
    """

    def describe(call: Call) -> None:
        if call.is_nested:  # It belongs to the model that is being loaded.
            return
        loaded = call.result if owner < 0 else call.args[owner]
        facts = facts_of(loaded, call)
        if facts is None:
            call.is_dropped = True
            return
        call.model = call.recorder.new_model(facts, loaded)
        object.__setattr__(loaded, NUMBER, call.model)

    return describe


def _number_of(model: Any) -> int:
    return int(getattr(model, NUMBER, 0))


def _compiling(call: Call) -> None:
    path = call.argument(0, "model")
    call.detail = Path(path).name if isinstance(path, (str, os.PathLike)) else "a model in memory"


def _making_state(call: Call) -> None:
    call.model = _number_of(call.args[0])


def _image_changed(call: Call) -> None:
    image = call.args[0]
    call.detail = f"{describe_value(image)} → {describe_value(call.result)}"
    call.bytes = call.result.width * call.result.height * len(call.result.getbands())
    # Opening a file converts lazily, and a conversion to the same mode is only a copy.
    call.is_dropped = call.result.size == image.size and call.result.mode == image.mode


_COREMLTOOLS = "coremltools.models"
_SESSION = "onnxruntime.capi.onnxruntime_inference_collection"

#: The functions that are recorded.
POINTS: tuple[Point, ...] = (
    Point(
        module=f"{_COREMLTOOLS}.model",
        name="MLModel.__init__",
        kind="load",
        is_outermost=True,
        after=_loaded_with(facts_of_coremltools),
    ),
    Point(
        module=f"{_COREMLTOOLS}._compiled_model",
        name="CompiledMLModel.__init__",
        kind="load",
        is_outermost=True,
        after=_loaded_with(facts_of_coremltools),
    ),
    Point(
        module=f"{_COREMLTOOLS}.model",
        name="MLModel.predict",
        kind="predict",
        wrapper="prediction",
        data=(1, "data"),
    ),
    Point(
        module=f"{_COREMLTOOLS}._compiled_model",
        name="CompiledMLModel.predict",
        kind="predict",
        wrapper="prediction",
        data=(1, "data"),
    ),
    Point(module=f"{_COREMLTOOLS}.model", name="MLModel.make_state", kind="new state", before=_making_state),
    Point(
        module=f"{_COREMLTOOLS}._compiled_model",
        name="CompiledMLModel.make_state",
        kind="new state",
        before=_making_state,
    ),
    Point(
        module=f"{_COREMLTOOLS}.utils",
        name="compile_model",
        kind="compile",
        is_outermost=True,
        before=_compiling,
    ),
    Point(
        module=f"{_COREMLTOOLS}.model",
        name="MLModel._get_predictions",
        kind="check inputs",
        wrapper="checks",
    ),
    Point(
        module="coremlscope.runtime.execution.pipeline",
        name="open_predictor",
        kind="load",
        is_outermost=True,
        after=_loaded_with(facts_of_predictor, -1),
    ),
    Point(
        module="coremlscope.runtime.execution.predictor",
        name="Predictor.predict",
        kind="predict",
        wrapper="prediction",
        data=(1, "values"),
    ),
    Point(
        module=_SESSION,
        name="InferenceSession.__init__",
        kind="load",
        kind_when_nested="prepare engine",
        after=_loaded_with(facts_of_session),
        session="make",
    ),
    Point(
        module=_SESSION,
        name="Session.run",
        kind="predict",
        kind_when_nested="run",
        wrapper="prediction",
        data=(2, "input_feed"),
        session="run",
    ),
    Point(
        module=_SESSION,
        name="Session.run_with_iobinding",
        kind="predict",
        kind_when_nested="run",
        wrapper="prediction",
        data=(2, "input_feed"),
        session="run",
    ),
    Point(module="PIL.Image", name="Image.resize", kind="resize image", after=_image_changed),
    Point(module="PIL.Image", name="Image.convert", kind="convert image", after=_image_changed),
)
