"""A part of a model: what it consists of, its values, and its own profile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from coremlscope.reports.document import Block, Column, Facts, Heading, Table, Title, numbers
from coremlscope.reports.profile import profile_document
from coremlscope.reports.words import histogram, model_name, plural
from coremlscope.results.isolation import Isolation, PartTensor

#: The name of the embedded engine in differences.
_HERE = "here"
_MOST_TENSORS = 12
_ALL = ": --json lists all"


def isolation_document(isolation: Isolation) -> Iterator[Block]:
    """Yields a part and its profile."""
    yield from _part(isolation)
    yield from profile_document(isolation.profile)


def _part(isolation: Isolation) -> Iterator[Block]:
    first, last = isolation.units[0], isolation.units[-1]
    count = plural(len(isolation.units), "operation")
    yield Title(model_name(isolation.path), f"{count} of {model_name(isolation.source)}")
    weights = "weights of the file are absent: they are synthetic" if isolation.random_weights else ""
    yield Facts(
        [
            ("from", f"{first.id} {first.name}"),
            ("to", f"{last.id} {last.name}" if len(isolation.units) > 1 else ""),
            ("operations", histogram(Counter(unit.type for unit in isolation.units))),
            ("values", f"computed by running the whole model{_rounded(isolation)}"),
            ("weights", weights),
            ("files", ", ".join(isolation.files)),
        ]
    )
    for title, tensors in (
        ("Inputs", isolation.inputs),
        ("States", isolation.states),
        ("Outputs", isolation.outputs),
    ):
        if tensors:
            yield Heading(title)
            yield _values(tensors)


def _values(tensors: Sequence[PartTensor]) -> Table:
    runtimes = list(dict.fromkeys(runtime for tensor in tensors for runtime in tensor.difference))
    columns = (
        Column("name", style="cyan", most=40, is_code=True),
        Column("type", rank=1),
        *numbers("from", "to", "inf, NaN", *map(_title, runtimes)),
    )
    rows = [(*_cells(tensor), *(_difference(tensor, r) for r in runtimes)) for tensor in tensors]
    return Table(columns, rows, _MOST_TENSORS, "tensor", _ALL)


def _rounded(isolation: Isolation) -> str:
    return ", every fp16 result rounded to fp16" if isolation.precision == "fp16" else " in float32"


def _title(runtime: str) -> str:
    return "from the whole model" if runtime == _HERE else f"Core ML, {runtime}"


def _cells(tensor: PartTensor) -> tuple[str, ...]:
    count = str(tensor.not_finite) if tensor.not_finite else ""
    return tensor.name, tensor.type, _number(tensor.smallest), _number(tensor.largest), count


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _difference(tensor: PartTensor, runtime: str) -> str:
    if runtime not in tensor.difference:
        return "–"
    found = tensor.difference[runtime]
    if found is None:
        return "not comparable"
    return "equal" if found == 0 else f"{found:.1e}"
