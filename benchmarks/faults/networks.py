"""Small networks of different families, with random weights, into whose conversions faults are planted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

__all__ = ["NETWORKS", "Small"]


@dataclass(frozen=True, slots=True)
class Small:
    """A network with one input `x`.

    Attributes:
        name: Its name in tables.
        make: Builds the module, in evaluation mode, with seeded weights.
        shape: The shape of its input.
    """

    name: str
    make: Callable[[], nn.Module]
    shape: tuple[int, ...]


def _norm(width: int) -> nn.BatchNorm2d:
    """Builds a normalization whose statistics are not those of a fresh one."""
    norm = nn.BatchNorm2d(width)
    nn.init.uniform_(norm.weight, 0.5, 1.5)
    nn.init.normal_(norm.bias, std=0.3)
    nn.init.normal_(norm.running_mean, std=0.3)
    nn.init.uniform_(norm.running_var, 0.5, 1.5)
    return norm


def _conv(given: int, made: int, size: int = 3, stride: int = 1, groups: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(given, made, size, stride, size // 2, groups=groups, bias=False)
    nn.init.normal_(conv.weight, std=(2 / (given // groups * size * size)) ** 0.5)
    return nn.Sequential(conv, _norm(made))


class _Residual(nn.Module):
    """Residual blocks, a pooling and a classifier; optionally depthwise, grouped, squeezed."""

    def __init__(self, *, groups: int = 1, is_depthwise: bool = False, is_squeezed: bool = False) -> None:
        super().__init__()
        self.stem = _conv(3, 16, stride=2)
        self.first = nn.ModuleList(_conv(16, 16, groups=16 if is_depthwise else groups) for _ in range(3))
        self.second = nn.ModuleList(_conv(16, 16, 1 if is_depthwise else 3) for _ in range(3))
        self.squeeze, self.excite = nn.Conv2d(16, 8, 1), nn.Conv2d(8, 16, 1)
        self.head = nn.Linear(16, 10)
        self.groups, self.is_squeezed, self.is_depthwise = groups, is_squeezed, is_depthwise

    def _shuffle(self, x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        return x.view(b, self.groups, c // self.groups, h, w).transpose(1, 2).reshape(b, c, h, w)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.stem(x)), 3, 1, 1)
        for one, two in zip(self.first, self.second, strict=True):
            y = F.relu6(one(x)) if self.is_depthwise else F.relu(one(x))
            y = two(self._shuffle(y) if self.groups > 1 else y)
            if self.is_squeezed:
                gate = self.excite(F.silu(self.squeeze(y.mean((2, 3), keepdim=True))))
                y = y * torch.sigmoid(gate)
            x = F.hardswish(x + y) if self.is_depthwise else F.relu(x + y)
        return self.head(x.mean((2, 3)))


class _Attention(nn.Module):
    """A block of a transformer, with a causal mask or without."""

    def __init__(self, width: int = 32, heads: int = 4, *, steps: int = 0) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.before, self.behind = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        for norm in (self.before, self.behind):
            nn.init.uniform_(norm.weight, 0.5, 1.5)
            nn.init.normal_(norm.bias, std=0.2)
        self.heads, self.is_masked = heads, steps > 0
        self.register_buffer("mask", torch.full((max(1, steps),) * 2, -1e4).triu(1))

    def forward(self, x: Tensor) -> Tensor:
        b, n, width = x.shape
        y = self.before(x)
        q, k, v = (
            layer(y).view(b, n, self.heads, width // self.heads).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        scores = q * (width // self.heads) ** -0.5 @ k.transpose(-2, -1) * 3
        if self.is_masked:
            scores = scores + self.mask
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, width)
        x = x + self.out(mixed)
        return x + self.down(F.gelu(self.up(self.behind(x))))


class _ViT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 32, 8, 8)
        self.token = nn.Parameter(torch.randn(1, 1, 32))
        self.position = nn.Parameter(torch.randn(1, 17, 32) * 0.5)
        self.blocks = nn.Sequential(_Attention(), _Attention())
        self.head = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token, x], 1) + self.position
        return self.head(self.blocks(x)[:, 0])


class _Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(_Attention(steps=12), _Attention(steps=12))
        self.gain = nn.Parameter(torch.rand(32) + 0.5)
        self.head = nn.Linear(32, 20)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(x)
        x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * self.gain
        return self.head(x).softmax(-1)


class _Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.given, self.cells = nn.Linear(16, 24), kind(24, 24, 2, batch_first=True)
        self.head = nn.Linear(24, 6)

    def forward(self, x: Tensor) -> Tensor:
        y, _ = self.cells(torch.tanh(self.given(x)))
        return self.head(y[:, -1] + y.mean(1))


class _UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.three = _conv(3, 8), _conv(8, 16, stride=2), _conv(16, 16, stride=2)
        self.up, self.four = nn.ConvTranspose2d(16, 16, 2, 2), _conv(32, 8)
        self.last = nn.Conv2d(16, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        one = F.leaky_relu(self.one(x), 0.1)
        two = F.leaky_relu(self.two(one), 0.1)
        three = F.elu(self.three(two))
        y = F.relu(self.four(torch.cat([self.up(three), two], 1)))
        y = F.interpolate(y, scale_factor=2, mode="bilinear", align_corners=False)
        return torch.sigmoid(self.last(torch.cat([y, one], 1)))


class _Conformer(nn.Module):
    """Spectrogram to symbols: a subsampling, attention, a gated depthwise convolution over time."""

    def __init__(self) -> None:
        super().__init__()
        self.sub, self.given = nn.Conv2d(1, 8, 3, 2, 1), nn.Linear(8 * 8, 32)
        self.attention, self.norm = _Attention(), nn.LayerNorm(32)
        self.gate, self.depth = nn.Conv1d(32, 64, 1), nn.Conv1d(32, 32, 7, padding=3, groups=32)
        self.point, self.head = nn.Conv1d(32, 32, 1), nn.Linear(32, 20)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.log(x.square() + 1e-3)
        x = (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-5)
        x = F.relu(self.sub(x)).permute(0, 2, 1, 3).flatten(2)
        x = self.attention(self.given(x))
        a, b = self.gate(self.norm(x).transpose(1, 2)).chunk(2, 1)
        y = self.point(F.silu(self.depth(a * torch.sigmoid(b))))
        return self.head(x + y.transpose(1, 2)).log_softmax(-1)


class _Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.ModuleList([_conv(3, 16, stride=2), _conv(16, 16, stride=2), _conv(16, 16)])
        self.boxes, self.classes = nn.Conv2d(16, 4, 1), nn.Conv2d(16, 6, 1)
        places = torch.arange(8).float() + 0.5
        grid = torch.stack(torch.meshgrid(places, places, indexing="xy"))[None]
        self.register_buffer("grid", grid)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        for layer in self.body:
            x = F.silu(layer(x))
        box = self.boxes(x)
        centre = (box[:, :2].sigmoid() * 2 - 0.5 + self.grid) * 4
        size = (box[:, 2:].clamp(-3, 3).exp() * 4).clamp(1, 30)
        corners = torch.cat([centre - size / 2, centre + size / 2], 1)
        return corners.flatten(2).transpose(1, 2), self.classes(x).sigmoid().flatten(2).transpose(1, 2)


class _Pictures(nn.Module):
    """Classical preprocessing: a colour matrix, a normalization, gradients, a histogram of cells."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1))
        self.register_buffer("deviation", torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1))
        self.register_buffer("colours", torch.tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1))
        self.conv, self.head = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8 * 16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = (torch.sigmoid(x) - self.mean) / self.deviation
        grey = (x * self.colours).sum(1, keepdim=True)
        across, down = grey[..., 1:-1, 2:] - grey[..., 1:-1, :-2], grey[..., 2:, 1:-1] - grey[..., :-2, 1:-1]
        size = torch.sqrt(across.square() + down.square() + 1e-4)
        y = self.conv(F.pad(torch.cat([across, down, size], 1), (1, 1, 1, 1)))
        return self.head(F.avg_pool2d(F.relu(y), 8).flatten(1))


def _seeded(make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(7)
    return make().eval()


NETWORKS: tuple[Small, ...] = (
    Small("residual", partial(_seeded, _Residual), (1, 3, 32, 32)),
    Small("squeezed", partial(_seeded, partial(_Residual, is_squeezed=True)), (1, 3, 32, 32)),
    Small("depthwise", partial(_seeded, partial(_Residual, is_depthwise=True)), (1, 3, 32, 32)),
    Small("grouped", partial(_seeded, partial(_Residual, groups=4)), (1, 3, 32, 32)),
    Small("vit", partial(_seeded, _ViT), (1, 3, 32, 32)),
    Small("decoder", partial(_seeded, _Decoder), (1, 12, 32)),
    Small("lstm", partial(_seeded, partial(_Recurrent, nn.LSTM)), (1, 9, 16)),
    Small("gru", partial(_seeded, partial(_Recurrent, nn.GRU)), (1, 9, 16)),
    Small("unet", partial(_seeded, _UNet), (1, 3, 32, 32)),
    Small("conformer", partial(_seeded, _Conformer), (1, 1, 40, 16)),
    Small("detector", partial(_seeded, _Detector), (1, 3, 32, 32)),
    Small("pictures", partial(_seeded, _Pictures), (1, 3, 32, 32)),
)
