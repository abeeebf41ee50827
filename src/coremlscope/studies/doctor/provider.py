"""Says of an ONNX model what ONNX Runtime's Core ML provider does with it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from coremlscope.api.providers import ask_provider
from coremlscope.base.errors import ModelError
from coremlscope.base.escaping import path_text
from coremlscope.results.hazard import Hazard
from coremlscope.studies.doctor.model import ModelReport, Problem

_FORMATS = {"neuralnetwork": "NeuralNetwork", "mlprogram": "MLProgram"}
_MOST_NAMES = 8


def examine_onnx(path: Path) -> ModelReport:
    """Examines an ONNX model without running it.

    Raises:
        OSError: The file cannot be read.
    """
    try:
        _, divisions = ask_provider(path)
    except ModelError as error:
        damage = Problem(id="damaged", effect="nothing works", text=f"{error.message}.", fix=error.hint)
        return ModelReport(path=path_text(path), kind="", needs="", problems=(damage,))
    problems = []
    met: dict[str, tuple[Hazard, list[str]]] = {}
    for report in (one.report for one in divisions):
        name = _FORMATS[report.format]
        outside = Counter(one.op for one in report.left)
        fixes = dict.fromkeys(one.fix for one in report.left if one.fix)
        if report.left:
            problems.append(
                Problem(
                    id=f"onnxruntime-{report.format}",
                    effect="needs care",
                    text=f"With ModelFormat {name}, ONNX Runtime {report.release} makes Core ML models:"
                    f" {report.models}, with operators: {report.inside}; outside are {report.outside}.",
                    fix="; ".join(list(fixes)[:3]),
                    ops=tuple(f"{op} ({count})" for op, count in outside.most_common(_MOST_NAMES)),
                )
            )
        for hazard in report.hazards:
            met.setdefault(hazard.id, (hazard, []))[1].append(name)
    problems += [
        Problem(
            id=hazard.id,
            effect="needs care",
            text=f"With ModelFormat {' and '.join(names)}: {hazard.text}.",
            fix=hazard.fix,
        )
        for hazard, names in met.values()
    ]
    return ModelReport(path=path_text(path), kind="ONNX", needs="ONNX Runtime", problems=tuple(problems))
