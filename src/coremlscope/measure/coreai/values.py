"""The values that Core AI's interpreter computes: of every operation, in a child process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from coremlscope.base.errors import EngineError
from coremlscope.base.processes.child import Task, python_child, run_child
from coremlscope.base.processes.endings import Failures, KnownFailure
from coremlscope.base.scratch import scratch_folder
from coremlscope.base.writing import write_draft
from coremlscope.formats.recordings.core_ai import INTERPRETER, DebugOp, read_debug_info
from coremlscope.measure.coreai.measurer import FAILURES, LIMITS, save_inputs
from coremlscope.measure.coreai.values_child import DEBUG_INFO, RESULTS, TOO_LARGE, ValuesRequest

VALUES_CHILD = python_child("coremlscope.measure.coreai.values_child", "save_values_of")
_HINT = "use another reference, such as the program of torch.export"
_SMALLER = "set smaller shapes with --shape, or verify a part of the model"
_TASK = Task(
    "Core AI",
    _HINT,
    Failures(
        "Core AI",
        (
            *FAILURES.known,
            KnownFailure(TOO_LARGE, "its values take more than fits in memory", _SMALLER),
        ),
    ),
)


class OpResult(msgspec.Struct, frozen=True):
    """A result of an operation of the file.

    Attributes:
        op: What ran for it.
        number: The number of the operation in the file.
        place: The place among the operation's results.
        array: The elements.
    """

    op: DebugOp
    number: int
    place: int
    array: np.ndarray


class CoreAIValues(msgspec.Struct, frozen=True, kw_only=True):
    """The values of a prediction.

    Attributes:
        version: The version of coreai-core.
        results: Those of operations, in the order in which they ran.
        outputs: Those of the function.
    """

    version: str
    results: tuple[OpResult, ...]
    outputs: Mapping[str, np.ndarray]


def record_values(
    source: Path,
    function: str,
    inputs: Mapping[str, Any],
    most_bytes: int,
    *,
    command: Sequence[str] = VALUES_CHILD,
) -> CoreAIValues:
    """Runs a bundle once by Core AI's interpreter, with states of zeros.

    Args:
        source: The bundle.
        function: The function.
        inputs: Values by name.
        most_bytes: The most that all values may take.
        command: The child process to run.

    Raises:
        EngineError: Core AI failed, or went past a limit.
    """
    report: dict[str, Any] = {}
    with scratch_folder() as name:
        folder = Path(name)
        save_inputs(inputs, folder)
        request = ValuesRequest(
            model=str(source.expanduser().resolve()), function=function, most_bytes=most_bytes
        )
        path = folder / "request.json"
        write_draft(path, msgspec.json.encode(request))
        # On a Mac, the interpreter that coreai-core contains instead of the system's framework.
        environment = {"TMPDIR": name, "USE_LOCAL_COREAI": "1"}
        with run_child([*command, str(path)], LIMITS, _TASK, environment=environment) as messages:
            for message in messages:
                report.update(message)
        if "values" not in report:
            raise EngineError("Core AI reported no values", _HINT)
        records = read_debug_info(msgspec.json.decode((folder / DEBUG_INFO).read_bytes()))
        with np.load(folder / RESULTS, allow_pickle=False) as file:
            arrays = [file[str(place)] for place in range(len(file.files))]
    ops = {record.id: record for record in records if record.record == INTERPRETER}
    count = len(report["values"])
    results = [
        (run, place, OpResult(ops[number], op, place, array))
        for (number, run, own), array in zip(report["values"], arrays[:count], strict=True)
        for result, op, place in ops[number].results
        if result == own
    ]
    results.sort(key=lambda found: found[:2])
    return CoreAIValues(
        version=str(report.get("coreai", "")),
        results=tuple(result for *_, result in results),
        outputs=dict(zip(report["outputs"], arrays[count:], strict=True)),
    )
