"""How ONNX Runtime's Core ML provider divides an ONNX model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from coremlscope.reports.document import Block, Column, Facts, Heading, Item, Table, Text, Title
from coremlscope.reports.words import model_name, plural
from coremlscope.results.profile import Profile
from coremlscope.results.provider import ProviderReport

#: Name and version of the form of `plan --json`.
SCHEMA = "coremlscope.onnx-plan/1"
_FORMATS = {"neuralnetwork": "NeuralNetwork", "mlprogram": "MLProgram"}
#: Kinds of operators outside that are listed.
_LISTED = 12
_COLUMNS = (
    Column("count", is_number=True),
    Column("operator", is_code=True),
    Column("stays outside, because"),
    Column("fix", rank=1),
)


def provider_sections(report: ProviderReport) -> Iterator[Block]:
    """Yields what the provider makes of a model in one format."""
    default = "ONNX Runtime's own default; " if report.is_default else ""
    yield Heading(f"ModelFormat {_FORMATS[report.format]}", f"{default}ONNX Runtime {report.release}")
    outside = report.nodes - report.supported
    yield Facts(
        [
            ("partitions", _partitions(report)),
            ("operators", f"{report.supported} of {report.nodes} in Core ML, {outside} outside"),
            ("graph", report.basis),
        ]
    )
    for one in report.rounds:
        yield Text(one.line, "", 0)
    if report.left:
        counts = Counter((one.op, one.reason, one.fix) for one in report.left)
        rows = [(str(count), *words) for words, count in counts.most_common()]
        yield Table(_COLUMNS, rows, most=_LISTED, noun="kind of operator", more=" (--json lists them)")
    yield from map(Item, report.findings)


def _partitions(report: ProviderReport) -> str:
    if not report.models:
        return "none: nothing runs in Core ML"
    text = plural(report.models, "Core ML model")
    if len(report.rounds) > 1:
        text += f", in {plural(len(report.rounds), 'round')}: ONNX Runtime expands operators and asks again"
    return text


def onnx_document(profile: Profile) -> Iterator[Block]:
    """Yields what ONNX Runtime's Core ML provider makes of an ONNX model."""
    yield Title(model_name(profile.model.path))
    for report in profile.providers:
        yield from provider_sections(report)


def onnx_to_json(profile: Profile) -> dict[str, Any]:
    """The form of `plan --json` for ONNX models: `provider` is the first format, `providers` are all."""
    providers = [msgspec.to_builtins(report) for report in profile.providers]
    return {
        "schema": SCHEMA,
        "model": profile.model.path,
        "provider": providers[0],
        "providers": providers,
    }
