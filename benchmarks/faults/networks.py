"""Twenty small networks in PyTorch with random weights: what sound conversions are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["NETWORKS", "PIXELS", "Network", "Prepare", "build"]

#: The shape of pictures, and the number of classes: all networks for pictures have one interface.
PIXELS, CLASSES = (1, 3, 32, 32), 10
#: The vocabulary, and the length of sentences.
WORDS, LENGTH = 60, 12

Kind = Literal["pixels", "numbers", "words"]


@dataclass(frozen=True)
class Network:
    """A network.

    Attributes:
        name: Its name.
        make: Makes it, with weights drawn by PyTorch.
        shape: The shape of its input.
        kind: What its input holds: pixels of 0 … 255, numbers of a normal distribution, or indices of words.
        is_classifier: Whether its output is a softmax over classes.
    """

    name: str
    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    kind: Kind = "numbers"
    is_classifier: bool = False

    def draw(self, seed: int) -> Tensor:
        """Draws an input."""
        generator = torch.Generator().manual_seed(seed)
        if self.kind == "words":
            return torch.randint(0, WORDS, self.shape, generator=generator)
        if self.kind == "pixels":
            return torch.randint(0, 256, self.shape, generator=generator).float()
        return torch.randn(self.shape, generator=generator)


class Prepare(nn.Module):
    """Pixels of 0 … 255 as a network takes them."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = 1 / 255
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).reshape(1, 3, 1, 1))
        self.register_buffer("deviation", torch.tensor([0.229, 0.224, 0.225]).reshape(1, 3, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return (x * self.scale - self.mean) / self.deviation


class Add(nn.Module):
    """What a part of a network adds to its input."""

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        self.parts = nn.Sequential(*parts)
        self.is_kept = True

    def forward(self, x: Tensor) -> Tensor:
        return x + self.parts(x) if self.is_kept else self.parts(x)


class Join(nn.Module):
    """The results of several parts, one behind the other."""

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.is_turned = False

    def forward(self, x: Tensor) -> Tensor:
        found = [part(x) for part in self.parts]
        return torch.cat(found[::-1] if self.is_turned else found, 1)


class Squeeze(nn.Module):
    """A gate for each channel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(width, width // 2, 1), nn.Conv2d(width // 2, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        gate = self.up(self.down(x.mean((2, 3), keepdim=True)).relu())
        return x * functional.hardsigmoid(gate)


class Attention(nn.Module):
    """Self-attention, written out; a mask hides what comes later."""

    def __init__(self, width: int, *, is_causal: bool = False) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.heads, self.scale, self.axis, self.is_causal = 2, (width // 2) ** -0.5, -1, is_causal

    def forward(self, x: Tensor) -> Tensor:
        count, width = x.shape[1:]
        q, k, v = (
            layer(x).reshape(1, count, self.heads, width // self.heads).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        scores = q @ k.transpose(2, 3) * self.scale
        if self.is_causal:
            scores = scores + torch.triu(torch.full((count, count), -1e4), 1)
        return self.out((scores.softmax(self.axis) @ v).transpose(1, 2).reshape(1, count, width))


class Tokens(nn.Module):
    """Pictures as rows of patches."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.cut = nn.Conv2d(3, width, 8, 8)
        self.places = nn.Parameter(torch.randn(1, 16, width) * 0.3)

    def forward(self, x: Tensor) -> Tensor:
        return self.cut(x).flatten(2).transpose(1, 2) + self.places


class Move(nn.Module):
    """Exchanges two axes."""

    def forward(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2)


class Mean(nn.Module):
    """The mean over axes."""

    def __init__(self, *axes: int) -> None:
        super().__init__()
        self.axes = axes

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(self.axes)


class Last(nn.Module):
    """The last result of a recurrent layer."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[0][:, -1]


class Two(nn.Module):
    """Two heads, each an output."""

    def __init__(self, body: nn.Module, *heads: nn.Module) -> None:
        super().__init__()
        self.body, self.heads = body, nn.ModuleList(heads)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        found = self.body(x)
        return tuple(head(found) for head in self.heads)


class Skip(nn.Module):
    """Goes down, comes up again, and joins what was there before."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.down = nn.Conv2d(width, 2 * width, 3, 2, 1)
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.join = nn.Conv2d(3 * width, width, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.join(torch.cat([x, self.up(self.down(x).relu())], 1)).relu()


def _conv(given: int, wanted: int, size: int = 3, step: int = 1, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(given, wanted, size, step, size // 2, groups=groups), nn.BatchNorm2d(wanted)
    )


def _head(width: int) -> tuple[nn.Module, ...]:
    return Mean(2, 3), nn.Linear(width, CLASSES), nn.Softmax(-1)


def _plain() -> nn.Module:
    return nn.Sequential(
        Prepare(), nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), *_head(32)
    )


def _residual() -> nn.Module:
    block = [Add(_conv(16, 16), nn.ReLU(), _conv(16, 16)) for _ in range(2)]
    return nn.Sequential(Prepare(), _conv(3, 16, 3, 2), nn.ReLU(), block[0], nn.ReLU(), block[1], *_head(16))


def _mobile() -> nn.Module:
    def block() -> nn.Module:
        return Add(_conv(12, 48, 1), nn.ReLU6(), _conv(48, 48, 3, 1, 48), nn.ReLU6(), _conv(48, 12, 1))

    return nn.Sequential(Prepare(), _conv(3, 12, 3, 2), nn.ReLU6(), block(), block(), *_head(12))


def _squeezed() -> nn.Module:
    act = nn.Hardswish
    return nn.Sequential(
        Prepare(), _conv(3, 16, 3, 2), act(), Squeeze(16), _conv(16, 16, 5, 2, 16), act(), *_head(16)
    )


def _transformer() -> nn.Module:
    def block() -> list[nn.Module]:
        layers = nn.Linear(24, 48), nn.GELU(), nn.Linear(48, 24)
        return [Add(nn.LayerNorm(24), Attention(24)), Add(nn.LayerNorm(24), *layers)]

    head = Mean(1), nn.Linear(24, CLASSES), nn.Softmax(-1)
    return nn.Sequential(Prepare(), Tokens(24), *block(), *block(), nn.LayerNorm(24), *head)


def _modern() -> nn.Module:
    def block() -> nn.Module:
        inner = nn.Conv2d(16, 16, 7, padding=3, groups=16), nn.GroupNorm(1, 16), nn.Conv2d(16, 48, 1)
        return Add(*inner, nn.GELU(), nn.Conv2d(48, 16, 1))

    return nn.Sequential(Prepare(), nn.Conv2d(3, 16, 4, 4), block(), block(), *_head(16))


def _dense() -> nn.Module:
    return nn.Sequential(
        Prepare(),
        _conv(3, 8, 3, 2),
        nn.LeakyReLU(0.1),
        Join(nn.Identity(), nn.Sequential(_conv(8, 8), nn.LeakyReLU(0.1))),
        nn.AvgPool2d(3, 2, 1),
        Join(nn.Identity(), nn.Sequential(_conv(16, 8), nn.LeakyReLU(0.1))),
        *_head(24),
    )


def _branches() -> nn.Module:
    paths = [nn.Sequential(_conv(12, 8, size), nn.SiLU()) for size in (1, 3, 5)]
    return nn.Sequential(Prepare(), _conv(3, 12, 3, 2), nn.SiLU(), nn.MaxPool2d(2), Join(*paths), *_head(24))


def _mixer() -> nn.Module:
    def block() -> list[nn.Module]:
        across = nn.LayerNorm(24), Move(), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16), Move()
        return [Add(*across), Add(nn.LayerNorm(24), nn.Linear(24, 48), nn.GELU(), nn.Linear(48, 24))]

    head = Mean(1), nn.Linear(24, CLASSES), nn.Softmax(-1)
    return nn.Sequential(Prepare(), Tokens(24), *block(), nn.LayerNorm(24), *head)


def _flat() -> nn.Module:
    features = nn.Conv2d(3, 8, 3, padding=1), nn.ELU(), nn.MaxPool2d(4), nn.Flatten()
    return nn.Sequential(
        Prepare(), *features, nn.Linear(512, 32), nn.ELU(), nn.Linear(32, CLASSES), nn.Softmax(-1)
    )


def _sentences() -> nn.Module:
    block = Add(nn.LayerNorm(24), Attention(24)), Add(nn.LayerNorm(24), nn.Linear(24, 24), nn.GELU())
    return nn.Sequential(
        nn.Embedding(WORDS, 24), *block, nn.LayerNorm(24), Mean(1), nn.Linear(24, CLASSES), nn.Softmax(-1)
    )


def _recurrent_words() -> nn.Module:
    layer = Last(nn.LSTM(16, 24, batch_first=True))
    return nn.Sequential(nn.Embedding(WORDS, 16), layer, nn.Linear(24, CLASSES), nn.Softmax(-1))


def _gated() -> nn.Module:
    return nn.Sequential(
        nn.Linear(8, 16), nn.Tanh(), Last(nn.GRU(16, 24, batch_first=True)), nn.Linear(24, 4)
    )


def _sound() -> nn.Module:
    first = nn.Conv1d(1, 12, 9, 4), nn.BatchNorm1d(12), nn.ReLU(), nn.Conv1d(12, 24, 5, 2), nn.ReLU()
    return nn.Sequential(*first, Mean(2), nn.Linear(24, CLASSES), nn.Softmax(-1))


def _segments() -> nn.Module:
    return nn.Sequential(
        Prepare(), nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), Skip(8), nn.Conv2d(8, 1, 1), nn.Sigmoid()
    )


def _enlarging() -> nn.Module:
    body = nn.Conv2d(3, 16, 3, padding=1), nn.PReLU(), Add(nn.Conv2d(16, 16, 3, padding=1), nn.PReLU())
    return nn.Sequential(*body, nn.Conv2d(16, 12, 3, padding=1), nn.PixelShuffle(2))


def _table() -> nn.Module:
    return nn.Sequential(
        nn.Linear(20, 32), nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, 32), nn.Softplus(), nn.Linear(32, 3)
    )


def _detector() -> nn.Module:
    body = nn.Sequential(
        Prepare(), _conv(3, 16, 3, 2), nn.LeakyReLU(0.1), _conv(16, 16, 3, 2), nn.LeakyReLU(0.1)
    )
    return Two(body, nn.Conv2d(16, 4, 1), nn.Sequential(nn.Conv2d(16, 5, 1), nn.Sigmoid()))


def _decoder() -> nn.Module:
    block = (
        Add(nn.LayerNorm(24), Attention(24, is_causal=True)),
        Add(nn.LayerNorm(24), nn.Linear(24, 24), nn.GELU()),
    )
    return nn.Sequential(nn.Embedding(WORDS, 24), *block, nn.Linear(24, WORDS))


def _series() -> nn.Module:
    layers = [nn.Conv1d(8, 8, 3, padding=step, dilation=step) for step in (1, 2, 4)]
    parts = [Add(layer, nn.Tanh()) for layer in layers]
    return nn.Sequential(nn.Conv1d(2, 8, 1), *parts, nn.Conv1d(8, 2, 1))


NETWORKS: tuple[Network, ...] = (
    *(
        Network(make.__name__[1:], make, PIXELS, "pixels", True)
        for make in (
            _plain,
            _residual,
            _mobile,
            _squeezed,
            _transformer,
            _modern,
            _dense,
            _branches,
            _mixer,
            _flat,
        )
    ),
    Network("sentences", _sentences, (1, LENGTH), "words", True),
    Network("recurrent_words", _recurrent_words, (1, LENGTH), "words", True),
    Network("sound", _sound, (1, 1, 400), is_classifier=True),
    Network("gated", _gated, (1, 10, 8)),
    Network("segments", _segments, PIXELS, "pixels"),
    Network("enlarging", _enlarging, (1, 3, 16, 16)),
    Network("table", _table, (4, 20)),
    Network("detector", _detector, PIXELS, "pixels"),
    Network("decoder", _decoder, (1, LENGTH), "words"),
    Network("series", _series, (1, 2, 40)),
)


def build(network: Network, seed: int) -> nn.Module:
    """Makes a network whose normalizations fit its features, and whose scores are as far apart as those of a
    trained one."""
    torch.manual_seed(1000 * seed + NETWORKS.index(network))
    module = network.make()
    with torch.no_grad():
        norms = [part for part in module.modules() if isinstance(part, (nn.BatchNorm1d, nn.BatchNorm2d))]
        for norm in norms:
            norm.momentum = None
        module.train()
        for number in range(4):
            module(network.draw(seed + number))
        for norm in norms:
            norm.weight.uniform_(0.5, 1.5), norm.bias.uniform_(-0.3, 0.3)
        module.eval()
        if network.is_classifier:
            head = next(part for part in reversed(list(module.modules())) if isinstance(part, nn.Linear))
            scores = torch.cat([module[:-1](network.draw(seed + number)) for number in range(4)])
            head.weight *= 3 / scores.std()
            head.bias *= 3 / scores.std()
    return module
