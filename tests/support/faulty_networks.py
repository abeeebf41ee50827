"""Networks in PyTorch with one planted fault each, converted, and verified against the right ones.

The last ones are rebuilt from reports of the field, by their descriptions.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from tests.support.faulty_programs import Inputs, Planted

__all__ = ["NETWORKS", "REPORT_2625", "convert"]


def convert(
    module: nn.Module,
    shape: tuple[int, ...],
    path: Path,
    *,
    fp16: bool,
    scale: float | None = None,
    bias: list[float] | None = None,
    is_bgr: bool = False,
    export: bool = False,
) -> Path:
    """Converts a module with one input `x` by coremltools.

    Args:
        module: The module.
        shape: The shape of its input.
        path: The package to write.
        fp16: Whether to compute in fp16.
        scale: The scale of an image input; None for an array.
        bias: The bias of each colour of an image input.
        is_bgr: Whether an image input has its colours in the order blue, green, red.
        export: Converts through `torch.export` instead of TorchScript.
    """
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        import coremltools as ct

        example = torch.zeros(shape)
        if export:
            graph: Any = torch.export.export(module.eval(), (example,)).run_decompositions({})
        else:
            graph = torch.jit.trace(module.eval(), example)
        given: Any = ct.TensorType(name="x", shape=shape)
        if scale is not None:
            order = ct.colorlayout.BGR if is_bgr else ct.colorlayout.RGB
            given = ct.ImageType("x", shape, scale=scale, bias=bias, color_layout=order)
        model = ct.convert(
            graph,
            inputs=[given],
            convert_to="mlprogram",
            compute_precision=ct.precision.FLOAT16 if fp16 else ct.precision.FLOAT32,
            minimum_deployment_target=ct.target.iOS17,
            skip_model_load=True,
        )
        model.save(str(path))
    return path


def _seeded(make: Callable[[], nn.Module], seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return make().eval()


def _built(
    wrong: Callable[[], nn.Module],
    right: Callable[[], nn.Module] | None,
    shape: tuple[int, ...],
    **options: Any,
) -> Callable[[Path], tuple[Path, Any]]:
    """Builds the wrong module as a package, and the right one as it is, or as a `.pt2` file for odd seeds."""

    def build(folder: Path) -> tuple[Path, Any]:
        reference = _seeded(right or wrong)
        as_file = options.pop("pt2", False)
        path = convert(_seeded(wrong), shape, folder / "model.mlpackage", **options)
        if not as_file:
            return path, reference
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            program = torch.export.export(reference, (torch.zeros(shape),))
            torch.export.save(program, str(folder / "reference.pt2"))
        return path, folder / "reference.pt2"

    return build


class Attention(nn.Module):
    """Self-attention, with faults to choose from."""

    def __init__(
        self,
        width: int = 32,
        heads: int = 4,
        *,
        scale: bool = True,
        order: bool = True,
        swap: bool = False,
        gain: float = 1,
    ) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.scale, self.order = scale, order
        with torch.no_grad():
            for layer in (self.q, self.k):
                layer.weight *= gain
            if swap:
                kept = self.q.weight.clone(), self.q.bias.clone()
                self.q.weight.copy_(self.k.weight), self.q.bias.copy_(self.k.bias)
                self.k.weight.copy_(kept[0]), self.k.bias.copy_(kept[1])

    def split(self, x: torch.Tensor) -> torch.Tensor:
        b, n, _ = x.shape
        if self.order:
            return x.view(b, n, self.heads, self.size).transpose(1, 2)
        return x.view(b, self.heads, n, self.size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        scores = q @ k.transpose(-2, -1)
        if self.scale:
            scores = scores / self.size**0.5
        mixed = scores.softmax(-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    """A transformer's block in a stack, so that the fault is in the middle of a network."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.first = Attention()
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(32) for _ in range(3))
        self.second = Attention(**options)
        self.mlp = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.first(self.norm1(x))
        x = x + self.second(self.norm2(x))
        return x + self.mlp(self.norm3(x))


class Flatten(nn.Module):
    """A convolution, and a linear layer that reads its channels last or first."""

    def __init__(self, *, last: bool) -> None:
        super().__init__()
        self.conv, self.linear, self.last = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8 * 64, 10), last

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x).relu()
        return self.linear((x.permute(0, 2, 3, 1) if self.last else x).reshape(1, -1))


class Upsample(nn.Module):
    """A decoder whose upsampling aligns corners or not."""

    def __init__(self, *, aligned: bool) -> None:
        super().__init__()
        self.down, self.up, self.aligned = (
            nn.Conv2d(3, 8, 3, stride=2, padding=1),
            nn.Conv2d(8, 3, 3, padding=1),
            aligned,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.interpolate(
            self.down(x).relu(), scale_factor=2, mode="bilinear", align_corners=self.aligned
        )
        return self.up(x).sigmoid()


class Pooled(nn.Module):
    """A network whose average counts its padding or not."""

    def __init__(self, *, counts: bool) -> None:
        super().__init__()
        self.conv, self.pool = nn.Conv2d(3, 8, 3), nn.AvgPool2d(3, 2, 1, count_include_pad=counts)
        self.head = nn.Conv2d(8, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.pool(self.conv(x).relu()))


class Normed(nn.Module):
    """A network with batch normalisations, one of which was left out of the conversion."""

    def __init__(self, *, dropped: bool) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)
        self.next, self.head = nn.Conv2d(8, 8, 3), nn.Linear(8, 4)
        with torch.no_grad():
            self.norm.running_mean.uniform_(-1, 1), self.norm.running_var.uniform_(0.2, 3)
        self.dropped = dropped

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x).tanh()
        x = x if self.dropped else self.norm(x)
        return self.head(self.next(x).relu().mean((2, 3)))


class RawResidual(nn.Module):
    """Report 2025: a residual network that is given pixels of 0 … 255 without a scale."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 7, 2, 3)
        self.blocks = nn.ModuleList(nn.Conv2d(16, 16, 3, padding=1) for _ in range(4))
        self.head = nn.Linear(16, 10)
        with torch.no_grad():
            for block in self.blocks:
                block.weight *= 20

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x).relu()
        for block in self.blocks:
            x = (x + block(x)).relu()
        return self.head(x.mean((2, 3)))


class HiddenOverflow(nn.Module):
    """Report 2110: no layer exceeds the range of fp16, but what a norm computes inside does."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, 64), nn.Linear(64, 8)
        self.gain = nn.Parameter(torch.ones(64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x) * 400
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.gain
        return self.last(x.relu())


class HardSwishNet(nn.Module):
    """Report 2625: a network of hard swishes and squeeze-and-excitation, whose error in fp16 is large."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, 2, 1)
        self.expand, self.depth = nn.Conv2d(16, 64, 1), nn.Conv2d(64, 64, 5, 1, 2, groups=64)
        self.squeeze, self.excite = nn.Conv2d(64, 16, 1), nn.Conv2d(16, 64, 1)
        self.project, self.fc1, self.fc2 = nn.Conv2d(64, 16, 1), nn.Linear(16, 64), nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        act = nn.functional.hardswish
        x = act(self.stem(x))
        y = act(self.depth(act(self.expand(x))))
        y = y * nn.functional.hardsigmoid(self.excite(self.squeeze(y.mean((2, 3), keepdim=True)).relu()))
        x = x + self.project(y)
        return self.fc2(act(self.fc1(x.mean((2, 3)))))


class MaskedAttention(nn.Module):
    """Report 2223: a mask of the lowest float32 makes rows of −∞ in fp16, whose softmax is NaN."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(16, 16) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        keep = (x[..., 0] > -10).float()
        mask = (1 - keep) * torch.finfo(torch.float32).min
        scores = self.q(x) @ self.k(x).transpose(-2, -1) / 4 + mask[:, None, :]
        return scores.softmax(-1) @ self.v(x)


class LogCumulative(nn.Module):
    """Report 2729: the logarithm of a cumulative sum of exponentials overflows in fp16."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(torch.log(torch.cumsum(torch.exp(x * 6), -1)))


class RootMeanSquare(nn.Module):
    """Report 2821: the epsilon of a norm grows with the square of the largest element, as it is scaled"
    " first."""

    def __init__(self, *, scaled: bool) -> None:
        super().__init__()
        self.linear, self.scaled = nn.Linear(64, 8), scaled

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x**5
        if self.scaled:
            largest = x.abs().amax(-1, keepdim=True)
            root = torch.sqrt((x / largest).pow(2).mean(-1, keepdim=True) + 1e-2) * largest
        else:
            root = torch.sqrt(x.pow(2).mean(-1, keepdim=True) + 1e-2)
        return self.linear(x / root)


class Sentence(nn.Module):
    """Report 1809: an encoder of sentences. The converter drops the positions' embedding, with a warning.

    Its cause, the second input of an embedding, is that of report 1428, which the report names as the same.
    """

    def __init__(self, *, has_positions: bool) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, 32), nn.Embedding(16, 32)
        self.norm, self.block, self.has_positions = nn.LayerNorm(32), Block(), has_positions

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        places = torch.arange(ids.shape[1])[None] * (1 if self.has_positions else 0)
        return self.block(self.norm(self.words(ids) + self.places(places))).mean(1)


def _sentence(folder: Path) -> tuple[Path, nn.Module]:
    right, wrong = (_seeded(partial(Sentence, has_positions=has)) for has in (True, False))
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        import coremltools as ct

        graph = torch.jit.trace(wrong, torch.zeros((1, 8), dtype=torch.int32))
        given = ct.TensorType(name="ids", shape=(1, 8), dtype=np.int32)
        model = ct.convert(
            graph,
            inputs=[given],
            convert_to="mlprogram",
            minimum_deployment_target=ct.target.iOS17,
            skip_model_load=True,
        )
        model.save(str(folder / "model.mlpackage"))
    return folder / "model.mlpackage", right


_SEQUENCE = (1, 4, 32)
_ALL_MASKED: Inputs = {
    "x": np.full((1, 4, 16), -20, np.float32) + np.random.default_rng(3).random((1, 4, 16), np.float32)
}

NETWORKS: tuple[Planted, ...] = (
    Planted(
        name="torch-dropped-scale",
        build=_built(lambda: Block(scale=False), Block, _SEQUENCE, fp16=False),
        ops=("op_113", "scores"),
        causes=("scale",),
    ),
    Planted(
        name="torch-wrong-heads",
        build=_built(lambda: Block(order=False), Block, _SEQUENCE, fp16=False, pt2=True),
        ops=("scores_5", "q_3", "k_3"),
        causes=("layout",),
    ),
    Planted(
        name="torch-swapped-query-key",
        build=_built(lambda: Block(swap=True, gain=4), lambda: Block(gain=4), _SEQUENCE, fp16=True, pt2=True),
        ops=("linear_4", "inversed_scores"),
        causes=("swapped weights", "layout"),
    ),
    Planted(
        name="torch-overflow-attention",
        build=_built(lambda: Block(gain=240), None, _SEQUENCE, fp16=True),
        ops=("scores_5",),
        causes=("overflow",),
    ),
    Planted(
        name="torch-flatten",
        build=_built(lambda: Flatten(last=True), lambda: Flatten(last=False), (1, 3, 8, 8), fp16=True),
        ops=("transpose_0", "var_21"),
        causes=("layout",),
    ),
    Planted(
        name="torch-align-corners",
        build=_built(
            lambda: Upsample(aligned=True), lambda: Upsample(aligned=False), (1, 3, 16, 16), fp16=True
        ),
        ops=("input",),
        causes=("setting",),
    ),
    Planted(
        name="torch-padding-counts",
        build=_built(lambda: Pooled(counts=True), lambda: Pooled(counts=False), (1, 3, 6, 6), fp16=True),
        ops=("input",),
        causes=("setting",),
    ),
    Planted(
        name="torch-dropped-norm",
        build=_built(lambda: Normed(dropped=True), lambda: Normed(dropped=False), (1, 3, 16, 16), fp16=False),
        ops=("op_27",),
        causes=("missing operation",),
    ),
    Planted(
        name="report-2110",
        build=_built(HiddenOverflow, None, (2, 64), fp16=True),
        ops=("op_11",),
        causes=("overflow",),
    ),
    Planted(
        name="report-2025",
        build=_built(RawResidual, None, (1, 3, 32, 32), fp16=True, scale=1.0),
        ops=("op_64",),
        causes=("overflow",),
    ),
    Planted(
        name="report-1809",
        build=_sentence,
        ops=("input_3",),
        causes=("weights",),
        inputs={"ids": np.arange(3, 11, dtype=np.int32)[None]},
    ),
    Planted(
        name="report-2223",
        build=_built(MaskedAttention, None, (1, 4, 16), fp16=True),
        ops=("mask",),
        causes=("infinite constants",),
        inputs=_ALL_MASKED,
    ),
    Planted(
        name="report-2729",
        build=_built(LogCumulative, None, (2, 16), fp16=True),
        ops=("op_5",),
        causes=("overflow",),
    ),
    Planted(
        name="report-2821",
        build=_built(
            lambda: RootMeanSquare(scaled=True), lambda: RootMeanSquare(scaled=False), (2, 64), fp16=False
        ),
        ops=("op_10",),
        causes=("extra operation",),
    ),
)

#: Report 2625: what its authors saw on devices, rounding of each result does not reproduce.
REPORT_2625 = Planted(
    name="report-2625",
    build=_built(HardSwishNet, None, (1, 3, 32, 32), fp16=True, scale=1 / 255),
    ops=("input_17",),
    causes=("overflow", "accumulation", "unknown", "cancellation"),
)
