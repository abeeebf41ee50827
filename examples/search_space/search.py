"""Estimates random architectures of a search space on devices, without writing a single model.

python examples/search_space/search.py COUNT FOLDER
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from coremlscope import run_sweep
from coremlscope.formats.expressions.building import LayerBuilder
from coremlscope.model.ir import DType, Model, Value

DEVICES = ("m1", "iphone-15-pro")
#: Channels at a width of 1, and the first stride, of each stage (as in MobileNetV2).
STAGES = ((24, 2), (40, 2), (80, 2), (112, 1), (160, 2))


@dataclass(frozen=True)
class Stage:
    """The choices of one stage: blocks, size of the depthwise kernel, expansion, and squeeze-and-excite."""

    depth: int
    kernel: int
    expansion: int
    squeezes: bool


@dataclass(frozen=True)
class Architecture:
    """A point of the space: 2 resolutions × 3 widths × (4 depths × 3 kernels × 3 expansions × 2)⁵."""

    size: int
    width: float
    stages: tuple[Stage, ...]

    @property
    def name(self) -> str:
        """A short text with all choices: `192-1.0-2k3e6s-…`."""
        listed = (f"{s.depth}k{s.kernel}e{s.expansion}{'s' * s.squeezes}" for s in self.stages)
        return "-".join([str(self.size), str(self.width), *listed])


def sample(choose: random.Random) -> Architecture:
    """Draws an architecture."""
    stages = tuple(
        Stage(choose.randint(1, 4), choose.choice((3, 5, 7)), choose.choice((3, 4, 6)), choose.random() < 0.5)
        for _ in STAGES
    )
    return Architecture(choose.choice((192, 224)), choose.choice((0.75, 1.0, 1.25)), stages)


def build(chosen: Architecture) -> Model:
    """Builds the graph of an architecture; its weights are drawn when something reads them."""
    net = LayerBuilder(DType.FP16)
    x = net.input("image", (1, 3, chosen.size, chosen.size))
    x = conv(net, x, 16, kernel=3, stride=2)
    for (channels, first_stride), stage in zip(STAGES, chosen.stages, strict=True):
        filters = round(channels * chosen.width / 8) * 8
        for block in range(stage.depth):
            x = inverted_residual(net, x, filters, first_stride if block == 0 else 1, stage)
    x = conv(net, x, 960, kernel=1)
    (x,) = net.op("reduce_mean", x=x, axes=[2, 3], keep_dims=False)
    (x,) = net.op("linear", x=x, weight=net.weight(1000, 960), bias=net.weight(1000))
    return net.model(net.op("softmax", x=x, axis=-1), chosen.name)


def conv(
    net: LayerBuilder,
    x: Value,
    filters: int,
    kernel: int,
    stride: int = 1,
    groups: int = 1,
    relu: bool = True,
) -> Value:
    """Adds a convolution, with ReLU by default."""
    weight = net.weight(filters, channels_of(x) // groups, kernel, kernel)
    strides, pad = [stride, stride], [kernel // 2] * 4
    (y,) = net.op("conv", x=x, weight=weight, strides=strides, pad_type="custom", pad=pad, groups=groups)
    return net.op("relu", x=y)[0] if relu else y


def inverted_residual(net: LayerBuilder, x: Value, filters: int, stride: int, stage: Stage) -> Value:
    """Adds expansion, depthwise convolution, squeeze-and-excite and projection, with a shortcut."""
    inner = channels_of(x) * stage.expansion
    y = conv(net, x, inner, kernel=1)
    y = conv(net, y, inner, stage.kernel, stride, groups=inner)
    if stage.squeezes:
        (pooled,) = net.op("reduce_mean", x=y, axes=[2, 3], keep_dims=True)
        gate = conv(net, conv(net, pooled, inner // 4, kernel=1), inner, kernel=1, relu=False)
        (gate,) = net.op("sigmoid", x=gate)
        (y,) = net.op("mul", x=y, y=gate)
    y = conv(net, y, filters, kernel=1, relu=False)
    return net.op("add", x=x, y=y)[0] if x.type == y.type else y


def channels_of(x: Value) -> int:
    """Returns the number of channels of a tensor."""
    return int(x.type.shape[1])  # type: ignore[union-attr, index, arg-type]


def architectures(count: int) -> Iterator[tuple[str, Model]]:
    """Yields names and graphs, which are built when the sweep takes them."""
    choose = random.Random(0)
    for chosen in dict.fromkeys(sample(choose) for _ in range(count)):
        yield chosen.name, build(chosen)


def main() -> None:
    """Estimates as many architectures as the command line says, and prints the best ones."""
    count, folder = int(sys.argv[1]), sys.argv[2]
    began = time.monotonic()
    summary = run_sweep(graphs=architectures(count), devices=DEVICES, folder=folder)
    seconds = time.monotonic() - began
    print(f"{summary.made} estimates made in {seconds:.0f} s, {summary.known} existed")
    rows = pq.read_table(Path(folder, "estimates.parquet")).to_pylist()
    large = (row for row in rows if row["chip"] == "m1" and row["flops"] > 400e6)
    for row in sorted(large, key=lambda row: row["estimated_s"])[:5]:
        print(row["model"], f"{row['flops'] / 1e6:.0f} MFLOPs, {row['estimated_s'] * 1e3:.3f} ms")


if __name__ == "__main__":
    main()
