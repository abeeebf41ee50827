"""What is recorded: one row for each function whose calls become events.

A row names the module and the function, and says how to describe a call. `before` sees the arguments before
the function changes them, `after` also the result. All of this runs inside recorded programs, so it must be
quick.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coremlscope.results.events import COPIED, EVENT_KINDS, KIND_CODES, NOT_CONTIGUOUS, SHARES_BASE
from coremlscope.tracing.call import Call
from coremlscope.tracing.facts import facts_of_coremltools, facts_of_predictor, facts_of_session

__all__ = ["POINTS", "Point"]

#: The attribute that holds the number of a loaded model.
_NUMBER = "_coremlscope_trace_number"
_MOST_NAMES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A function whose calls are recorded.

    Attributes:
        module: The module that defines it, or through which it is called.
        name: Its qualified name in that module.
        kind: The name of its kind of event.
        kind_when_nested: The kind of a call inside another activity; empty for the same.
        is_outermost: Whether calls inside other activities are left out.
        applies: Whether a call with these positional arguments is an event.
        before: Describes a call before it is made.
        after: Describes a call that returned.
        is_plain: Whether a nested call is not described.
        is_activity: Whether the kind is shown in the lane of activities.
        code: The code of the kind.
        nested_code: The code of the kind of a nested call.
    """

    module: str
    name: str
    kind: str
    kind_when_nested: str = ""
    is_outermost: bool = False
    applies: Callable[[tuple[Any, ...]], bool] | None = None
    before: Callable[[Call], None] | None = None
    after: Callable[[Call], None] | None = None
    is_plain: bool = False
    is_activity: bool = field(init=False)
    code: int = field(init=False)
    nested_code: int = field(init=False)

    def __post_init__(self) -> None:
        code = KIND_CODES[self.kind]
        object.__setattr__(self, "is_activity", EVENT_KINDS[code].lane == "activity")
        object.__setattr__(self, "code", code)
        object.__setattr__(self, "nested_code", KIND_CODES[self.kind_when_nested or self.kind])


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
        object.__setattr__(loaded, _NUMBER, call.model)

    return describe


def _number_of(model: Any) -> int:
    return int(getattr(model, _NUMBER, 0))


def _predicting(call: Call) -> None:
    """Describes the inputs of a prediction: a dictionary, or a list of dictionaries."""
    call.model = _number_of(call.args[0])
    data = call.argument(1, "data", call.kwargs.get("values"))
    if isinstance(data, list):
        call.detail = f"batch of {len(data)}; "
        data = data[0] if data else {}
    _describe_inputs(call, data)


def _running(call: Call) -> None:
    """Describes the inputs of a session of ONNX Runtime."""
    call.model = _number_of(call.args[0])
    feeds = call.argument(2, "input_feed")
    if isinstance(feeds, dict):
        _describe_inputs(call, feeds)


def _describe_inputs(call: Call, data: Any) -> None:
    texts: list[str] = []
    for name, value in data.items():
        if len(texts) == _MOST_NAMES:
            texts.append(f"and {len(data) - _MOST_NAMES} more")
            break
        texts.append(f"{name} {describe_value(value)}")
    for value in data.values():
        _add_memory(call, value)
    call.detail += ", ".join(texts)


def _add_memory(call: Call, value: Any) -> None:
    """Adds the size of an array or image to a call, and notes how it lies in memory."""
    size = getattr(value, "nbytes", None)
    if size is None and hasattr(value, "getbands"):
        size = value.width * value.height * len(value.getbands())
    call.bytes += int(size or 0)
    if not _is_array(value):
        return
    if not value.flags.c_contiguous:
        call.flags |= NOT_CONTIGUOUS
    base = value.base
    if base is not None and not call.address and getattr(base, "nbytes", 0) > value.nbytes:
        call.address = value.__array_interface__["data"][0]
        call.flags |= SHARES_BASE


def _is_array(value: Any) -> bool:
    """Whether a value is an array of NumPy; a program that has not imported NumPy has none."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def describe_value(value: Any) -> str:
    """A value in a few words: `float32[1,3,224,224]`, `image RGB 640×480`."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is not None and dtype is not None:
        flags = getattr(value, "flags", None)
        strides = None if getattr(flags, "c_contiguous", True) else value.strides
        return _describe_array(dtype, tuple(shape), strides)
    if hasattr(value, "getbands"):
        return f"image {value.mode} {value.width}×{value.height}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__} of {len(value)}"
    return type(value).__name__


@functools.lru_cache(maxsize=4096)
def _describe_array(dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...] | None) -> str:
    text = f"{str(dtype).removeprefix('torch.')}[{','.join(map(str, shape))}]"
    return text if strides is None else f"{text} with strides of {','.join(map(str, strides))} bytes"


def _compiling(call: Call) -> None:
    path = call.argument(0, "model")
    call.detail = Path(path).name if isinstance(path, (str, os.PathLike)) else "a model in memory"


def _making_state(call: Call) -> None:
    call.model = _number_of(call.args[0])


def _inputs_converted(call: Call) -> None:
    """Describes one input that the drop-in's runtime converted."""
    feature, value = call.args[0], call.args[1]
    call.detail = _conversion(feature.name, describe_value(value), feature.type)
    call.bytes = int(getattr(call.result, "nbytes", 0))
    if _is_copy(value, call.result):
        call.flags |= COPIED


def _outputs_converted(call: Call) -> None:
    feature, tensor = call.args[0], call.args[1]
    call.detail = f"{feature.name}: {describe_value(tensor)} → {describe_value(call.result)}"
    call.bytes = int(getattr(tensor, "nbytes", 0))
    if _is_copy(tensor, call.result):
        call.flags |= COPIED


@functools.lru_cache(maxsize=4096)
def _conversion(name: str, given: str, type_: Any) -> str:
    """What became of a value of an input with a declared type."""
    dtype = getattr(type_, "dtype", None)
    target = (
        type(type_).__name__.removesuffix("Feature").lower()
        if dtype is None
        else getattr(dtype, "numpy", dtype)
    )
    return f"{name}: {given} → {target}"


def _is_copy(source: Any, result: Any) -> bool:
    """Whether two arrays lie in different memory."""
    if not _is_array(source) or not _is_array(result):
        return True
    return not sys.modules["numpy"].may_share_memory(source, result)


def _dictionary_converted(call: Call) -> None:
    """Describes what coremltools does with the inputs of a prediction before Core ML gets them."""
    data = call.args[-1]
    call.bytes = sum(int(getattr(value, "nbytes", 0)) for value in data.values())
    call.detail = "inputs to NumPy arrays"


def _has_other_values(args: tuple[Any, ...]) -> bool:
    """Whether coremltools has values to convert to arrays."""
    return not all(_is_array(value) for value in args[-1].values())


def _has_halves(args: tuple[Any, ...]) -> bool:
    """Whether there are float16 arrays, which coremltools widens."""
    return any(_is_array(value) and value.dtype.char == "e" for value in args[-1].values())


def _widening(call: Call) -> None:
    data = call.args[-1]
    halves = [name for name, value in data.items() if _is_array(value) and value.dtype.char == "e"]
    call.bytes = sum(int(data[name].nbytes) for name in halves)
    call.detail = f"{', '.join(halves)}: float16 → float32, by coremltools"


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
        is_outermost=True,
        before=_predicting,
    ),
    Point(
        module=f"{_COREMLTOOLS}._compiled_model",
        name="CompiledMLModel.predict",
        kind="predict",
        is_outermost=True,
        before=_predicting,
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
        module=f"{_COREMLTOOLS}.model", name="MLModel._verify_input_dict", kind="check inputs", is_plain=True
    ),
    Point(
        module=f"{_COREMLTOOLS}.model",
        name="MLModel._convert_tensor_to_numpy",
        kind="convert input",
        applies=_has_other_values,
        before=_dictionary_converted,
    ),
    Point(
        module=f"{_COREMLTOOLS}.model",
        name="MLModel._update_float16_multiarray_input_to_float32",
        kind="convert input",
        applies=_has_halves,
        before=_widening,
    ),
    Point(
        module="coremlscope.execution.pipeline",
        name="open_predictor",
        kind="load",
        is_outermost=True,
        after=_loaded_with(facts_of_predictor, -1),
    ),
    Point(
        module="coremlscope.execution.predictor",
        name="Predictor.predict",
        kind="predict",
        is_outermost=True,
        before=_predicting,
    ),
    Point(
        module="coremlscope.features.tensors",
        name="_to_tensor",
        kind="convert input",
        after=_inputs_converted,
    ),
    Point(
        module="coremlscope.features.tensors",
        name="_from_tensor",
        kind="convert output",
        after=_outputs_converted,
    ),
    Point(
        module=_SESSION,
        name="InferenceSession.__init__",
        kind="load",
        kind_when_nested="prepare engine",
        after=_loaded_with(facts_of_session),
    ),
    Point(
        module=_SESSION,
        name="Session.run",
        kind="predict",
        kind_when_nested="run",
        is_plain=True,
        before=_running,
    ),
    Point(
        module=_SESSION,
        name="Session.run_with_iobinding",
        kind="predict",
        kind_when_nested="run",
        is_plain=True,
        before=_running,
    ),
    Point(module="PIL.Image", name="Image.resize", kind="resize image", after=_image_changed),
    Point(module="PIL.Image", name="Image.convert", kind="convert image", after=_image_changed),
)
