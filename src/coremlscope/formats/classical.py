"""Classical models: their messages to `ir`. One row a kind; what is read agrees with itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from coremlscope import ir
from coremlscope.errors import CorruptModelError
from coremlscope.formats import schema
from coremlscope.formats.schema import Message

__all__ = ["READERS", "read_classical"]

_DAMAGED = "the file is damaged or was written by a faulty tool; export or download the model again"


def read_classical(kind: str, message: Message) -> ir.Classical:
    """Reads the message of a kind in `READERS`.

    Raises:
        CorruptModelError: Its parameters contradict each other.
    """
    return READERS[kind](message)


def _read_glm_regressor(message: Message) -> ir.GLMRegressor:
    weights, offsets = _read_linear("glmRegressor", message)
    return ir.GLMRegressor(weights, offsets, _name(message, "GLMRegressor", "PostEvaluationTransform"))


def _read_glm_classifier(message: Message) -> ir.GLMClassifier:
    kind = "glmClassifier"
    weights, offsets = _read_linear(kind, message)
    transform = _name(message, "GLMClassifier", "PostEvaluationTransform")
    encoding = _name(message, "GLMClassifier", "ClassEncoding")
    labels = _read_labels(message)
    # Core ML's own validation asks for the same.
    rows = len(labels) if encoding == "OneVsRest" and len(labels) > 2 else len(labels) - 1
    given = len(offsets.numpy())
    _require(given == rows, kind, f"{given} rows of weights for {len(labels)} classes encoded as {encoding}")
    _require(transform == "Logit" or len(labels) == 2, kind, f"Probit for {len(labels)} classes instead of 2")
    return ir.GLMClassifier(weights, offsets, transform, encoding, labels)


#: By Apple's name of the model type.
READERS: Mapping[str, Callable[[Message], ir.Classical]] = {
    ir.GLMRegressor.kind: _read_glm_regressor,
    ir.GLMClassifier.kind: _read_glm_classifier,
}


def _read_linear(kind: str, message: Message) -> tuple[ir.Constant, ir.Constant]:
    rows, offsets = [row.value for row in message.weights], np.array(message.offset, np.float64)
    _require(len(rows) == len(offsets), kind, f"{len(rows)} rows of weights and {len(offsets)} offsets")
    lengths = sorted({len(row) for row in rows})
    _require(len(lengths) == 1 and lengths[0] > 0, kind, f"rows of {lengths or 'no'} weights")
    return ir.constant(np.array(rows, np.float64)), ir.constant(offsets)


def _read_labels(message: Message) -> tuple[str | int, ...]:
    field = message.WhichOneof("ClassLabels")
    return () if field is None else tuple(getattr(message, field).vector)


def _name(message: Message, owner: str, enumeration: str) -> Any:
    """The name of a value of an enumeration that a message declares: a literal of `ir.classical`."""
    number = getattr(message, enumeration[0].lower() + enumeration[1:])
    name = schema.enum_names(f"{owner}.{enumeration}").get(number)
    kind = owner[:3].lower() + owner[3:]
    _require(name is not None, kind, f"an unknown {enumeration} ({number})")
    return name


def _require(is_met: bool, kind: str, what: str) -> None:
    if not is_met:
        raise CorruptModelError(f"the {kind} has {what}", _DAMAGED)
