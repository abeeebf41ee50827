"""A synthetic profile with round numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

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


_GROUPS = (
    Group(label="mul", op_ids=("main/1",), wall_s=0.0001, share=0.1, engine_nodes=(("main/1/Mul:0", "Mul"),)),
    Group(
        label="conv + clip",
        op_ids=("main/13", "main/16"),
        wall_s=0.0006,
        share=0.6,
        engine_nodes=(("fused main/13/Conv:0", "FusedConv"),),
    ),
    Group(
        label="ReorderOutput (added by the engine)",
        op_ids=(),
        wall_s=0.0001,
        share=0.1,
        engine_nodes=(("reorder", "ReorderOutput"),),
    ),
    Group(
        label="linear",
        op_ids=("main/542",),
        wall_s=0.0002,
        share=0.2,
        engine_nodes=(("main/542/Gemm:0", "Gemm"),),
    ),
)


def small_profile() -> Profile:
    """The first operations of the sample: two alone, a fused pair, one folded, and one engine-made node."""
    summary = small_summary(list_ops=True)
    return Profile(
        model=dataclasses.replace(summary, op_list=()),
        host=Host(
            processor="Example 9000",
            cores=4,
            os="Linux 6 (x86_64)",
            python="3.12.1",
            engine="scripted",
            engine_version="1.0",
            threads=2,
            label="scripted 1.0 on Example 9000",
        ),
        request=Request(compute_units="cpu_and_ne", function="main"),
        compile=Phase((0.2, 0.25, 0.3), (0.5,)),
        load=Phase((0.02,)),
        predict=Phase((0.0011, 0.0012, 0.0013, 0.0014), (0.002, 0.0015)),
        nodes=NodeTiming(
            iterations=30,
            warmups=3,
            run_s=0.0013,
            nodes_s=0.0010,
            node_overhead_s=0.0003,
            profiler_overhead_s=0.0001,
        ),
        ops=OpTable.of(_rows(summary)),
        groups=_GROUPS,
        findings=(
            Finding(id="first", severity="info", text="Something to know.", hint="what to do"),
            Finding(
                id="second",
                severity="warning",
                text="Something to mind, in a sentence that is long enough to be wrapped at 80.",
            ),
        ),
    )


def _rows(summary: ModelSummary) -> Iterator[OpRow]:
    owners = {op_id: index for index, group in enumerate(_GROUPS) for op_id in group.op_ids}
    for op in summary.op_list:
        group = owners.get(op.id, -1)
        if group < 0 and op.type != "cast":
            continue
        yield OpRow(
            id=op.id,
            type=op.type,
            name=op.name,
            function="main",
            outputs=op.outputs,
            flops=op.flops,
            read_bytes=op.read_bytes,
            written_bytes=op.written_bytes,
            weight_bytes=op.weight_bytes,
            group=group,
            status="folded" if group < 0 else "timed" if len(_GROUPS[group].op_ids) == 1 else "fused",
        )
