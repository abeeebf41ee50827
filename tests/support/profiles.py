"""A profile with numbers of round sizes, made by hand."""

from __future__ import annotations

import dataclasses

from coremlscope.describe.model import ModelSummary, summarise
from coremlscope.findings import Finding
from coremlscope.formats.sample import sample_model
from coremlscope.results.profile import Group, Host, NodeTiming, OpRow, OpTable, Phase, Profile, Request


def small_summary(*, list_ops: bool = False) -> ModelSummary:
    """The summary of a small sample, as if it had been read from a package."""
    summary = summarise(sample_model(size=32, width=0.5, classes=10), list_ops=list_ops)
    return dataclasses.replace(
        summary,
        path="models/sample.mlpackage",
        container="mlpackage",
        size_bytes=1_234_567,
        user_defined={"com.example.source": "made by hand"},
    )


def small_profile() -> Profile:
    """The first operations of the sample: two alone, a fused pair, one folded, a node of the engine's own."""
    summary = small_summary(list_ops=True)
    groups = (
        Group("mul", ("main/1",), 0.0001, 0.1, (("main/1/Mul:0", "Mul"),)),
        Group("conv + clip", ("main/13", "main/16"), 0.0006, 0.6, (("fused main/13/Conv:0", "FusedConv"),)),
        Group("ReorderOutput (added by the engine)", (), 0.0001, 0.1, (("reorder", "ReorderOutput"),)),
        Group("linear", ("main/542",), 0.0002, 0.2, (("main/542/Gemm:0", "Gemm"),)),
    )
    owners = {op_id: index for index, group in enumerate(groups) for op_id in group.op_ids}
    rows = []
    for op in summary.op_list:
        group = owners.get(op.id, -1)
        if group < 0 and op.type != "cast":
            continue
        status = "folded" if group < 0 else "timed" if len(groups[group].op_ids) == 1 else "fused"
        work = (op.flops, op.read_bytes, op.written_bytes, op.weight_bytes)
        rows.append(OpRow(op.id, op.type, op.name, "main", op.outputs, *work, group, status))
    return Profile(
        dataclasses.replace(summary, op_list=()),
        Host(
            "Example 9000",
            4,
            "Linux 6 (x86_64)",
            "3.12.1",
            "scripted",
            "1.0",
            2,
            "scripted 1.0 on Example 9000",
        ),
        Request(compute_units="cpu_and_ne", function="main"),
        Phase((0.2, 0.25, 0.3), (0.5,)),
        Phase((0.02,)),
        Phase((0.0011, 0.0012, 0.0013, 0.0014), (0.002, 0.0015)),
        NodeTiming(30, 3, 0.0013, 0.0010, 0.0003, 0.0001),
        OpTable.of(iter(rows)),
        groups,
        (
            Finding(id="first", severity="info", text="Something to know.", hint="what to do"),
            Finding(
                id="second",
                severity="warning",
                text="Something to mind, in a sentence that is long enough to be wrapped at 80.",
            ),
        ),
    )
