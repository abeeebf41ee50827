"""Rows of the table of rules: an operator's formats and types, and the conditions on its form."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from coremlscope.model.ir import DType
from coremlscope.planning.onnxruntime.case import Case, Format, Release

#: The oldest and the newest release of which the rules are known.
OLDEST: Release = (1, 20)
NEWEST: Release = (1, 32)
NEVER: Release = (9999, 0)
_ALL: tuple[Format, ...] = ("neuralnetwork", "mlprogram")
PROGRAM: tuple[Format, ...] = ("mlprogram",)
NETWORK: tuple[Format, ...] = ("neuralnetwork",)
#: How a fix begins that is another format.
USE_FORMAT = "use the format"
#: Folders of microsoft/onnxruntime.
PROVIDER = "onnxruntime/core/providers/coreml"
BUILDERS = f"{PROVIDER}/builders/impl"


class Condition(msgspec.Struct, frozen=True):
    """A condition under which the provider leaves an operator.

    Attributes:
        id: Its id.
        fails: Whether an operator does not meet it.
        reason: Why the operator is left, as a clause.
        fix: What to change; empty if nothing is known.
        formats: The formats for which it holds.
        since: The first release that has it.
        until: The first release that does not.
        source: The file of microsoft/onnxruntime; empty for that of the operator.
    """

    id: str
    fails: Callable[[Case], bool]
    reason: str
    fix: str = ""
    formats: tuple[Format, ...] = _ALL
    since: Release = OLDEST
    until: Release = NEVER
    source: str = ""

    def applies(self, format_: Format, release: Release) -> bool:
        """True if it holds for a format in a release."""
        return format_ in self.formats and self.since <= release < self.until


class Operator(msgspec.Struct, frozen=True):
    """An operator that the provider has a builder for.

    Attributes:
        op: Its type; the domain is not compared.
        formats: The first release that takes it in each format.
        least_opset: The oldest definition of it that is taken.
        types: The element types of the first input in each format; None for types that conditions check.
        conditions: The conditions on its form, in the provider's order.
        is_trivial: Whether a group of such operators alone is dropped.
        source: The file of microsoft/onnxruntime.
    """

    op: str
    formats: Mapping[Format, Release]
    source: str
    least_opset: int = 1
    types: Mapping[Format, frozenset[DType]] | None = None
    conditions: tuple[Condition, ...] = ()
    is_trivial: bool = False


def since(
    neuralnetwork: Release | None = OLDEST, mlprogram: Release | None = OLDEST
) -> Mapping[Format, Release]:
    """Returns the first releases in both formats; None for a format that never takes the operator."""
    given: dict[Format, Release | None] = {"neuralnetwork": neuralnetwork, "mlprogram": mlprogram}
    return {format_: release for format_, release in given.items() if release is not None}


def types(
    neuralnetwork: frozenset[DType] = frozenset(), mlprogram: frozenset[DType] = frozenset()
) -> Mapping[Format, frozenset[DType]]:
    """Returns the element types of the first input in both formats."""
    return {"neuralnetwork": neuralnetwork, "mlprogram": mlprogram}
