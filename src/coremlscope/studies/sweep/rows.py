"""The schema of results: one row for each model, origin, device and setting."""

from __future__ import annotations

import importlib
import importlib.util
import threading
import types
import typing
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
import msgspec.structs

from coremlscope.base.errors import MissingDependencyError, how_to_install
from coremlscope.results.schema import docstring_parts

if TYPE_CHECKING:
    import pyarrow as pa

#: The version of the schema, which Parquet files carry under this name in their metadata.
SCHEMA = ("coremlscope.results", "1")


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One result, or why there is none. Times are in seconds, sizes in bytes.

    Columns of another origin than the row's are empty: a row holds either measured times or estimated ones,
    and planned costs beside the estimates that follow from the same plan.

    Attributes:
        key: The address of the result: a hash of the model's content, the options, the versions and
            everything else that it depends on.
        origin: `measured` or `estimated`; for a failure, what was asked for.
        model: The name of the model: its relative path as it was given, the end of an absolute one that
            distinguishes it, or the name of a graph.
        content: A hash of the model's content; empty for imported profiles.
        function: The function; empty for the default one.
        shapes: Shapes of flexible inputs that were asked for: `x=1x3x224x224`.
        variant: The transforms that were applied: `palettize-4`; empty for the model as it is.
        labels: Texts that the user attached to the model: `family`, `commit`.
        numbers: Numbers that the user attached to it: `accuracy`.
        kind: Apple's name of the type of model.
        parameters: Number of parameters.
        operations: Number of operations.
        flops: Declared FLOPs of a prediction, a lower bound where an operation is unknown.
        weights_bytes: Bytes of the parameters in the file.
        size_bytes: Bytes of the file or folder.
        device: The device that was asked for; for a measurement the processor, or the device that an imported
            profile names.
        chip: The id of its chip; empty where it is not an Apple chip.
        os: The system.
        compute_units: The setting of compute units; empty where the runtime has none.
        measured_s: Median time of a prediction.
        measured_mean_s: Mean time of a prediction.
        measured_p95_s: 95th percentile.
        measured_low_s: Smallest time.
        measured_high_s: Largest time.
        compile_s: Median time of compiling.
        load_s: Median time of loading.
        iterations: Number of timed predictions.
        threads: Threads of the runtime.
        peak_bytes: Peak memory of the process that ran the model.
        runtime: The runtime that was measured, with its version.
        is_partial: Whether the measurement ended early.
        estimated_s: Estimated time of a prediction.
        estimated_low_s: Lower end of its 80 % interval.
        estimated_high_s: Upper end.
        basis: `calibrated` if the latency model was fitted to this chip and unit, else `extrapolated`.
        bound: The bottleneck of the estimate.
        neural_engine_share: Share of the Neural Engine in the estimated time of the kernels.
        gpu_share: Share of the GPU.
        cpu_share: Share of the CPU.
        switches: How often the unit changes between kernels.
        memory_bytes: Estimated peak memory of a prediction.
        left_out: What the estimate does not include; empty if it includes everything.
        planned_ms: Planned cost of all operations by Core ML's cost model, whose milliseconds are no
            prediction of time.
        neural_engine_operations: Operations that the plan places on the Neural Engine.
        gpu_operations: Operations on the GPU.
        cpu_operations: Operations on the CPU.
        failure: Why there is no result, as a sentence; empty if there is one.
        hint: What to do about it.
        exit_code: The exit code of the failure; 0 for none.
        made_at: When the result was made, UTC, ISO 8601.
        labelled_at: When its labels and numbers were replaced; empty if they are those of before.
        version: The version of coremlscope.
        host: The name of the node of a cluster that worked on it; empty for the machine of the sweep.
        work_s: Time of work on the model, shared by all rows that were made together.
    """

    key: str
    origin: str
    model: str
    content: str = ""
    function: str = ""
    shapes: str = ""
    variant: str = ""
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    numbers: Mapping[str, float] = msgspec.field(default_factory=dict)
    kind: str = ""
    parameters: int | None = None
    operations: int | None = None
    flops: int | None = None
    weights_bytes: int | None = None
    size_bytes: int | None = None
    device: str = ""
    chip: str = ""
    os: str = ""
    compute_units: str = ""
    measured_s: float | None = None
    measured_mean_s: float | None = None
    measured_p95_s: float | None = None
    measured_low_s: float | None = None
    measured_high_s: float | None = None
    compile_s: float | None = None
    load_s: float | None = None
    iterations: int | None = None
    threads: int | None = None
    peak_bytes: int | None = None
    runtime: str = ""
    is_partial: bool = False
    estimated_s: float | None = None
    estimated_low_s: float | None = None
    estimated_high_s: float | None = None
    basis: str = ""
    bound: str = ""
    neural_engine_share: float | None = None
    gpu_share: float | None = None
    cpu_share: float | None = None
    switches: int | None = None
    memory_bytes: int | None = None
    left_out: str = ""
    planned_ms: float | None = None
    neural_engine_operations: int | None = None
    gpu_operations: int | None = None
    cpu_operations: int | None = None
    failure: str = ""
    hint: str = ""
    exit_code: int = 0
    made_at: str = ""
    labelled_at: str = ""
    version: str = ""
    host: str = ""
    work_s: float | None = None


def check_arrow() -> None:
    """Checks that `pyarrow` is installed, without importing it.

    Raises:
        MissingDependencyError: It is not.
    """
    if importlib.util.find_spec("pyarrow") is None:
        require_arrow()


def prepare_arrow() -> None:
    """Imports `pyarrow` and what results are written with: in a thread, while the first jobs run."""
    threading.Thread(target=_import_arrow, name="pyarrow").start()


def _import_arrow() -> None:
    with suppress(ImportError):  # who needs it next says so.
        for name in ("pyarrow.parquet", "pyarrow.compute", "pyarrow.dataset"):
            importlib.import_module(name)


def require_arrow() -> Any:
    """Returns the module `pyarrow`.

    Raises:
        MissingDependencyError: It is not installed.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingDependencyError(
            "results of sweeps are Parquet files, and pyarrow is not installed",
            how_to_install("sweep"),
        ) from None
    return pyarrow


def arrow_schema() -> pa.Schema:
    """Returns the schema of Parquet files.

    Raises:
        MissingDependencyError: pyarrow is not installed.
    """
    arrow = require_arrow()
    plain = {str: arrow.string(), int: arrow.int64(), float: arrow.float64(), bool: arrow.bool_()}

    def type_of(hint: Any) -> Any:
        if typing.get_origin(hint) in (types.UnionType, typing.Union):
            return type_of(next(part for part in typing.get_args(hint) if part is not types.NoneType))
        if typing.get_origin(hint) is not None:
            return arrow.map_(*(plain[part] for part in typing.get_args(hint)))
        return plain[hint]

    hints = typing.get_type_hints(Row)
    fields = [(each, type_of(hints[each])) for each in Row.__struct_fields__]
    name, version = SCHEMA
    return arrow.schema(fields, metadata={name: version})


def column_meanings() -> Mapping[str, str]:
    """Returns what each column means, by its name."""
    return docstring_parts(Row.__doc__ or "")[1]
