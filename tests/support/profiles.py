"""A profile with numbers of round sizes, made by hand."""

from __future__ import annotations

import functools

import msgspec.structs

from coremlscope.base.findings import Finding
from coremlscope.describe.model import describe_model
from coremlscope.formats.sample import sample_model
from coremlscope.results.measurement import (
    Group,
    Machine,
    Measurement,
    NodeTiming,
    Phase,
    Runtime,
    Settings,
    Status,
)
from coremlscope.results.model import ModelSummary
from coremlscope.results.operations import OpTable
from coremlscope.results.profile import Profile, Provenance

__all__ = ["MACHINE", "MADE", "small_measurement", "small_ops", "small_profile", "small_summary", "timed_by"]

MACHINE = Machine(processor="Example 9000", cores=4, os="Linux 6 (x86_64)", python="3.12.1")
MADE = Provenance("2026-01-31T12:00:00Z", "1.2.3", MACHINE)

#: What became of each operation of the small profile, and the group that it belongs to.
_STATUS: tuple[Status, ...] = ("timed", "folded", "fused", "fused", "timed", "folded")
_GROUP = (0, -1, 1, 1, 3, -1)


@functools.cache
def small_summary(*, list_ops: bool = False) -> ModelSummary:
    """The summary of a small sample, as if it had been read from a package."""
    summary = describe_model(sample_model(size=32, width=0.5, classes=10), list_ops=list_ops)
    return msgspec.structs.replace(
        summary,
        path="models/sample.mlpackage",
        container="mlpackage",
        size_bytes=1_234_567,
        user_defined={"com.example.source": "made by hand"},
    )


@functools.cache
def small_ops() -> OpTable:
    """Six operations of the sample: a product, a cast, a convolution, its clip, a linear layer, a cast."""
    kept = {"main/1", "main/13", "main/16", "main/542"}
    rows = [row for row in small_summary(list_ops=True).ops if row.id in kept or row.type == "cast"]
    return OpTable.of(msgspec.structs.replace(row, inputs=None, live_bytes=None) for row in rows)


def small_measurement() -> Measurement:
    """Two operations alone, a fused pair, two folded ones, and a node that the engine added."""
    return Measurement(
        label="scripted 1.0 on Example 9000",
        runtime=Runtime("scripted", "scripted", "1.0"),
        machine=MACHINE,
        settings=Settings(compute_units="cpu_and_ne", function="main"),
        threads=2,
        compile=Phase.of((0.2, 0.25, 0.3), (0.5,)),
        load=Phase.of((0.02,)),
        predict=Phase.of((0.0011, 0.0012, 0.0013, 0.0014), (0.002, 0.0015)),
        groups=(
            _group("mul", (0,), 0.0001, 0.1, "main/1/Mul:0", "Mul"),
            _group("conv + clip", (2, 3), 0.0006, 0.6, "fused main/13/Conv:0", "FusedConv"),
            _group("ReorderOutput (added by the engine)", (), 0.0001, 0.1, "reorder", "ReorderOutput"),
            _group("linear", (4,), 0.0002, 0.2, "main/542/Gemm:0", "Gemm"),
        ),
        status=_STATUS,
        group=_GROUP,
        nodes=NodeTiming(
            iterations=30,
            warmups=3,
            run_s=0.0013,
            nodes_s=0.0010,
            node_overhead_s=0.0003,
            profiler_overhead_s=0.0001,
        ),
        findings=(
            Finding(id="first", severity="info", text="Something to know.", hint="what to do"),
            Finding(
                id="second",
                severity="warning",
                text="Something to mind, in a sentence that is long enough to be wrapped at 80.",
            ),
        ),
        measured_at="2026-01-31T11:59:58Z",
    )


def _group(label: str, ops: tuple[int, ...], wall_s: float, share: float, node: str, kind: str) -> Group:
    return Group(label=label, ops=ops, wall_s=wall_s, share=share, engine_nodes=((node, kind),))


def small_profile() -> Profile:
    """The first operations of the sample with one measurement."""
    return Profile(model=small_summary(), ops=small_ops(), made=MADE, measurements=(small_measurement(),))


def timed_by(
    label: str, predict_s: float, *, runtime: str = "coreml", compute_units: str = "all"
) -> Measurement:
    """A measurement of whole predictions, without operations, as Core ML's are."""
    return Measurement(
        label=label,
        runtime=Runtime(runtime, "Core ML" if runtime == "coreml" else runtime),
        machine=Machine(processor=label.rpartition(" on ")[2]),
        settings=Settings(compute_units=compute_units, function="main"),
        compute_units=compute_units,
        load=Phase.of((0.02, 0.02), (0.5,)),
        predict=Phase.of((predict_s,) * 4, (predict_s * 2,)),
        measured_at="2026-01-31T11:58:00Z",
    )
