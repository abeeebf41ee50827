"""Every operation of a model, column by column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import msgspec.structs

from coremlscope.base.units import short_repr


class OpRow(msgspec.Struct, frozen=True, kw_only=True):
    """One operation; see `OpTable`."""

    id: str
    type: str
    name: str
    function: str
    outputs: tuple[str, ...]
    output_names: tuple[str, ...] = ()
    flops: int | None = None
    read_bytes: int | None = None
    written_bytes: int | None = None
    weight_bytes: int | None = None
    work_is_complete: bool = True
    layer: str | None = None
    layer_type: str | None = None
    inputs: tuple[int, ...] | None = None
    live_bytes: int | None = None


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of an operation. Operations with equal parameters share one.

    Attributes:
        parameters: The parameters that values or weights are given for, in alphabetical order; once per
            argument.
        attributes: Pairs of parameter and constant, as text: `strides` and `[1, 1]`.
    """

    parameters: tuple[str, ...] = ()
    attributes: tuple[tuple[str, str], ...] = ()


class WeightKind(msgspec.Struct, frozen=True, kw_only=True):
    """The type of weights and how they are stored.

    Attributes:
        type: The element type and shape, as operations see it.
        storage: `fp16`, `LUT 4-bit`.
    """

    type: str
    storage: str


class WeightTable(msgspec.Struct, frozen=True, kw_only=True):
    """A column for each property of the weights that operations read.

    Attributes:
        kinds: All distinct kinds.
        name: The author's names; empty where the file has none.
        kind: The kind of each weight.
        stored_bytes: Bytes in the file.
        looked_at: The number of values that the range and the histogram are taken from, evenly spaced if it
            is less than the number of elements; 0 where no values were read.
        least: The smallest finite value, to four digits; None where no values were read.
        greatest: The greatest finite value, to four digits.
        histogram: Thousandths of the values in 16 intervals of equal width from the smallest to the
            greatest; 1 for less than a thousandth. Empty where no values were read, and for short weights.
    """

    kinds: tuple[WeightKind, ...] = ()
    name: tuple[str, ...] = ()
    kind: tuple[int, ...] = ()
    stored_bytes: tuple[int, ...] = ()
    looked_at: tuple[int, ...] = ()
    least: tuple[float | None, ...] = ()
    greatest: tuple[float | None, ...] = ()
    histogram: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        columns = (column for column in self.__struct_fields__ if column != "kinds")
        if len({len(getattr(self, name)) for name in columns}) > 1:
            raise ValueError("the columns of weights differ in length")
        if any(not 0 <= kind < len(self.kinds) for kind in self.kind):
            raise ValueError("a weight has a kind that is out of range")


class OpDetails(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of operations; empty in profiles of older versions and where only names are known.

    Attributes:
        signatures: All distinct parameters of operations.
        signature: The signature of each row of the op table; -1 where it is not known.
        arguments: What is given for each parameter of the signature. A number of 0 or more is a result,
            counted through all `output_names` of the op table; a negative number `-1 - i` is weight `i`; a
            text is the name of an input of the function or of the block that contains the operation.
        weights: The weights.
    """

    signatures: tuple[Signature, ...] = ()
    signature: tuple[int, ...] = ()
    arguments: tuple[tuple[int | str, ...], ...] = ()
    weights: WeightTable = msgspec.field(default_factory=WeightTable)


class OpTable(msgspec.Struct, frozen=True, kw_only=True):
    """A column for each property of all operations except constants, nested ones included.

    Measurements, plans and estimates refer to the rows of this table.

    Attributes:
        id: Stable ids, in program order.
        type: Apple's names.
        name: The author's names.
        function: The function that contains each operation; in a pipeline with its stage: `model1/main`.
        outputs: Types of the results, with bound shapes.
        output_names: Names of the results in the file; empty in profiles of older versions.
        flops: FLOPs; None where the operation is unknown. The same applies to the bytes.
        work_is_complete: False where FLOPs and bytes are lower bounds, as in a loop of unknown length.
        layer: In a neural network, the author's name of the layer that the operation belongs to; else None.
        layer_type: Apple's name of that layer's type.
        inputs: The operations whose results it reads, as rows of this table; None in older profiles.
        live_bytes: Bytes of all tensors that are alive while it runs, by their declared types; see
            `describe.dataflow.Flow`.
        details: The arguments of the operations.
    """

    id: tuple[str, ...] = ()
    type: tuple[str, ...] = ()
    name: tuple[str, ...] = ()
    function: tuple[str, ...] = ()
    outputs: tuple[tuple[str, ...], ...] = ()
    output_names: tuple[tuple[str, ...], ...] = ()
    flops: tuple[int | None, ...] = ()
    read_bytes: tuple[int | None, ...] = ()
    written_bytes: tuple[int | None, ...] = ()
    weight_bytes: tuple[int | None, ...] = ()
    work_is_complete: tuple[bool, ...] = ()
    layer: tuple[str | None, ...] = ()
    layer_type: tuple[str | None, ...] = ()
    inputs: tuple[tuple[int, ...] | None, ...] = ()
    live_bytes: tuple[int | None, ...] = ()
    details: OpDetails = msgspec.field(default_factory=OpDetails)

    __repr__ = short_repr

    def __post_init__(self) -> None:
        for name in self.columns():
            if len(getattr(self, name)) != len(self.id):
                raise ValueError(f"column {name} does not have {len(self.id)} rows")
        if self.details.signature and len(self.details.signature) != len(self.id):
            raise ValueError(f"the details do not have {len(self.id)} rows")
        _check_details(self.details, sum(map(len, self.output_names)))

    @classmethod
    def columns(cls) -> tuple[str, ...]:
        """Returns the names of the columns."""
        return tuple(column for column in cls.__struct_fields__ if column != "details")

    def __len__(self) -> int:
        return len(self.id)

    def __iter__(self) -> Iterator[OpRow]:
        names = self.columns()
        columns = (getattr(self, name) for name in names)
        return (OpRow(**dict(zip(names, values, strict=True))) for values in zip(*columns, strict=True))

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions that the operations are in, in order."""
        return tuple(dict.fromkeys(self.function))

    @classmethod
    def of(cls, rows: Iterable[OpRow]) -> OpTable:
        """Makes a table of rows."""
        names = cls.columns()
        columns = zip(*([getattr(row, name) for name in names] for row in rows), strict=True)
        return cls(**dict[str, Any](zip(names, columns, strict=False)))


def _check_details(details: OpDetails, results: int) -> None:
    """Checks that details refer to signatures, results and weights that exist.

    Raises:
        ValueError: They do not.
    """
    weights = len(details.weights.name)
    if len(details.arguments) != len(details.signature):
        raise ValueError("the arguments of operations do not match their signatures")
    for index, given in zip(details.signature, details.arguments, strict=True):
        if not -1 <= index < len(details.signatures):
            raise ValueError("the details contain a signature that is out of range")
        if index >= 0 and len(details.signatures[index].parameters) != len(given):
            raise ValueError("the arguments of an operation do not match its parameters")
        if any(isinstance(one, int) and not -weights <= one < results for one in given):
            raise ValueError("the details contain an argument that is out of range")
