"""Every operation of a model, column by column."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

__all__ = ["OpRow", "OpTable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpRow:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class OpTable:
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

    def __post_init__(self) -> None:
        for column in dataclasses.fields(self):
            if len(getattr(self, column.name)) != len(self.id):
                raise ValueError(f"column {column.name} does not have {len(self.id)} rows")

    def __len__(self) -> int:
        return len(self.id)

    def __iter__(self) -> Iterator[OpRow]:
        names = [column.name for column in dataclasses.fields(self)]
        columns = (getattr(self, name) for name in names)
        return (OpRow(**dict(zip(names, values, strict=True))) for values in zip(*columns, strict=True))

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions that the operations are in, in order."""
        return tuple(dict.fromkeys(self.function))

    @classmethod
    def of(cls, rows: Iterable[OpRow]) -> OpTable:
        """Makes a table of rows."""
        names = [column.name for column in dataclasses.fields(OpRow)]
        columns = zip(*([getattr(row, name) for name in names] for row in rows), strict=True)
        return cls(**dict(zip(names, columns, strict=False)))
