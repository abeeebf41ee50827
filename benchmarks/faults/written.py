"""Networks whose own code has a fault: the faulty one is converted and compared with the right one.

A fault is a branch in `forward`, as a conversion or a rewriting by hand gets it wrong. The operations that
are right are recognised by their names: the converter names values after the variables of the code.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

__all__ = ["WRITTEN", "Faulty", "Written"]


@dataclass(frozen=True, slots=True)
class Written:
    """A fault in the code of a network.

    Attributes:
        name: Its name in tables.
        ops: Variables whose operations are right, as regular expressions, or `type:` and a type.
        causes: The causes that are right.
        is_precision: Whether it is seen in fp16 only; the reference has the same code.
        sites: In how many places it can be.
        reference: The network that it is compared with: the right one, the same code, or the right one in
            training mode.
    """

    name: str
    ops: str
    causes: str
    is_precision: bool = False
    sites: int = 1
    reference: Literal["right", "same", "training"] = "right"


class Faulty(nn.Module):
    """A network with one fault, or none.

    Attributes:
        fault: The name of the fault; None for the right network.
        site: The block that has it.
        image: The options of an image input, as for `convert`; empty for an array.
        is_given_pixels: Whether a network with an image input does its preprocessing itself.
    """

    shape: ClassVar[tuple[int, ...]]
    faults: ClassVar[tuple[Written, ...]]
    image: dict[str, Any] = {}  # noqa: RUF012
    is_given_pixels: bool = False

    def __init__(self, fault: str | None = None, site: int = 0) -> None:
        super().__init__()
        self.fault, self.site = fault, site

    def has(self, fault: str, site: int = 0) -> bool:
        """Returns whether a place has a fault."""
        return self.fault == fault and self.site == site


class Rotary(Faulty):
    """A decoder with rotary positions, shared key heads, a normalization by the root mean square."""

    shape = (1, 10, 32)
    faults = (
        Written("rotary sign", "turned|rotated|q|k", "sign|swapped arguments|offset|layout|scale", sites=2),
        Written(
            "rotary pairs",
            "turned|rotated|type:slice_by_index|type:stack",
            "layout|setting|other operation",
            sites=2,
        ),
        Written("key heads in another order", "keys|values", "layout|setting|other operation", sites=2),
        Written("attention scale missing", "scores|scaled|masked", "scale|missing operation", sites=2),
        Written("attention scale twice", "scores|scaled|masked", "scale|constant", sites=2),
        Written("mask missing", "scaled|masked|weights", "missing operation|offset|weights", sites=2),
        Written("mask off by one", "masked", "constant|weights|layout", sites=2),
        Written(
            "layer norm for RMS norm",
            "centred|squares|normed|type:sub|type:reduce_mean",
            "extra operation|other operation|missing operation|wrong argument|offset",
            sites=2,
        ),
        Written(
            "norm gain missing", "normed|type:linear", "scale|missing operation|weights|constant", sites=2
        ),
        Written(
            "gate and value exchanged",
            "gated|up|gate|opened",
            "swapped arguments|wrong argument|swapped weights|weights",
            sites=2,
        ),
        Written("squares overflow", "squares|type:mul|type:square", "overflow", is_precision=True, sites=2),
        Written("scores overflow", "scores", "overflow", is_precision=True, sites=2),
    )

    def __init__(self, fault: str | None = None, site: int = 0) -> None:
        super().__init__(fault, site)
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "q": nn.Linear(32, 32, bias=False),
                    "k": nn.Linear(32, 16, bias=False),
                    "v": nn.Linear(32, 16, bias=False),
                    "out": nn.Linear(32, 32, bias=False),
                    "gate": nn.Linear(32, 48, bias=False),
                    "up": nn.Linear(32, 48, bias=False),
                    "down": nn.Linear(48, 32, bias=False),
                }
            )
            for _ in range(2)
        )
        self.gains = nn.Parameter(torch.rand(5, 32) + 0.5)
        self.head = nn.Linear(32, 20)
        angles = torch.arange(10)[:, None] * 10000 ** (-torch.arange(4) / 4)[None]
        self.register_buffer("cos", torch.cat([angles.cos()] * 2, -1))
        self.register_buffer("sin", torch.cat([angles.sin()] * 2, -1))

    def norm(self, x: Tensor, place: int, site: int) -> Tensor:
        centred = x
        if self.has("layer norm for RMS norm", site):
            centred = x - x.mean(-1, keepdim=True)
        if self.has("squares overflow", site):
            centred = centred * 600
        squares = centred.square().mean(-1, keepdim=True)
        if self.has("norm gain missing", site):
            return centred * torch.rsqrt(squares + 1e-5)
        normed = centred * torch.rsqrt(squares + 1e-5) * self.gains[place]
        return normed  # noqa: RET504

    def rotate(self, x: Tensor, site: int) -> Tensor:
        a, b = x.chunk(2, -1)
        turned = torch.cat([-b, a], -1)
        if self.has("rotary sign", site):
            turned = torch.cat([b, -a], -1)
        if self.has("rotary pairs", site):
            turned = torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)
        rotated = x * self.cos + turned * self.sin
        return rotated  # noqa: RET504

    def attend(self, x: Tensor, layer: nn.ModuleDict, site: int) -> Tensor:
        q = layer["q"](x).view(1, 10, 4, 8).transpose(1, 2)
        k = layer["k"](x).view(1, 10, 2, 8).transpose(1, 2)
        v = layer["v"](x).view(1, 10, 2, 8).transpose(1, 2)
        q, k = self.rotate(q, site), self.rotate(k, site)
        if self.has("key heads in another order", site):
            keys, values = k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1)
        else:
            keys, values = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        size = 8**-0.5 * 4
        if self.has("scores overflow", site):
            q, keys, size = q * 400, keys * 400, size / 160000
        scores = q @ keys.transpose(-2, -1)
        scaled = scores if self.has("attention scale missing", site) else scores * size
        if self.has("attention scale twice", site):
            scaled = scores * (size * size)
        mask = torch.full((10, 10), -1e4).triu(2 if self.has("mask off by one", site) else 1)
        masked = scaled if self.has("mask missing", site) else scaled + mask
        weights = masked.softmax(-1)
        mixed = (weights @ values).transpose(1, 2).reshape(1, 10, 32)
        return layer["out"](mixed)

    def forward(self, x: Tensor) -> Tensor:
        for site, layer in enumerate(self.layers):
            x = x + self.attend(self.norm(x, 2 * site, site), layer, site)
            y = self.norm(x, 2 * site + 1, 9)
            gate, up = layer["gate"](y), layer["up"](y)
            if self.has("gate and value exchanged", site):
                gate, up = up, gate
            opened = F.silu(gate)
            gated = opened * up
            x = x + layer["down"](gated)
        return self.head(self.norm(x, 4, 9))


class Sharper(Faulty):
    """Makes a picture twice as large: slopes by channel, reflecting padding, a pixel shuffle."""

    shape = (1, 3, 16, 16)
    faults = (
        Written(
            "zero padding for reflection",
            "padded|type:pad|body",
            "setting|missing operation|other operation",
            sites=3,
        ),
        Written("slopes of another layer", "body|type:prelu", "weights|swapped weights|constant", sites=3),
        Written(
            "pixel shuffle by blocks",
            "fine|type:pixel_shuffle|blocks|moved|type:transpose|type:reshape",
            "layout|setting|other operation|weights",
        ),
        Written("nearest for bilinear", "large|type:upsample_.*|type:resize_.*", "other operation|setting"),
        Written(
            "corners aligned", "large|type:upsample_.*|type:resize_.*", "setting|constant|other operation"
        ),
        Written(
            "bias of another layer", "body|type:conv", "weights|swapped weights|constant|offset", sites=3
        ),
        Written("weight flipped", "body|type:conv", "weights|layout|swapped weights", sites=3),
        Written(
            "colours reversed",
            "coloured|large|fine",
            "layout|weights|setting|other operation|missing operation|extra operation",
        ),
    )

    def __init__(self, fault: str | None = None, site: int = 0) -> None:
        super().__init__(fault, site)
        self.convs = nn.ModuleList(nn.Conv2d(3 if i == 0 else 12, 12, 3) for i in range(4))
        self.slopes = nn.ModuleList(nn.PReLU(12) for _ in range(3))
        for slope in self.slopes:
            nn.init.uniform_(slope.weight, 0.05, 0.6)

    def forward(self, x: Tensor) -> Tensor:
        body = x
        for site, conv in enumerate(self.convs):
            mode = "constant" if self.has("zero padding for reflection", site) else "reflect"
            padded = F.pad(body, (1, 1, 1, 1), mode=mode)
            bias = self.convs[(site + 1) % 4].bias if self.has("bias of another layer", site) else conv.bias
            weight = conv.weight.flip(-1) if self.has("weight flipped", site) else conv.weight
            body = F.conv2d(padded, weight, bias)
            if site < 3:
                other = (site + 1) % 3 if self.has("slopes of another layer", site) else site
                body = F.prelu(body, self.slopes[other].weight)
        fine = F.pixel_shuffle(body, 2)
        if self.has("pixel shuffle by blocks"):
            blocks = body.view(1, 2, 2, 3, 16, 16)
            moved = blocks.permute(0, 3, 4, 1, 5, 2)
            fine = moved.reshape(1, 3, 32, 32)
        large = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        if self.has("nearest for bilinear"):
            large = F.interpolate(x, scale_factor=2, mode="nearest")
        if self.has("corners aligned"):
            large = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)
        coloured = large.flip(1) if self.has("colours reversed") else large
        return fine + coloured


class Waves(Faulty):
    """Causal dilated convolutions over time with gates, group normalizations and a running mean."""

    shape = (1, 16, 40)
    faults = (
        Written("dilation dropped", "mixed|type:conv|padded", "setting", sites=2),
        Written(
            "causal padding on the other side", "padded|mixed|type:pad|type:conv", "setting|layout", sites=3
        ),
        Written(
            "groups of a norm",
            (
                "body|grouped|spread|normed|centre|type:sub|type:reshape|type:reduce_.*|"
                "type:layer_norm|type:.*norm"
            ),
            "setting|layout|other operation|constant",
            sites=3,
        ),
        Written(
            "gates exchanged",
            "opened|value|gate|type:split|type:tanh|type:sigmoid",
            "swapped arguments|wrong argument|layout|other operation",
            sites=3,
        ),
        Written(
            "sum without its own step",
            "summed|running|type:cumsum",
            "setting|constant|other operation|missing operation|wrong argument|extra operation",
        ),
        Written("skip of another block", "skips|type:add", "wrong argument|missing operation|scale", sites=2),
        Written(
            "norm epsilon",
            "body|normed|spread|type:.*norm|type:add|type:rsqrt",
            "epsilon|constant|offset|scale",
            sites=3,
        ),
        Written(
            "naive variance",
            "variance|squared|mean|type:sub",
            "cancellation|accumulation|overflow",
            is_precision=True,
            sites=3,
        ),
    )

    def __init__(self, fault: str | None = None, site: int = 0) -> None:
        super().__init__(fault, site)
        self.convs = nn.ModuleList(nn.Conv1d(16, 32, 3, dilation=2**i) for i in range(3))
        self.points = nn.ModuleList(nn.Conv1d(16, 16, 1) for _ in range(3))
        self.norms = nn.ModuleList(nn.GroupNorm(4, 16) for _ in range(3))
        for norm in self.norms:
            nn.init.uniform_(norm.weight, 0.5, 1.5)
        self.head = nn.Conv1d(16, 8, 1)
        self.register_buffer("counts", 1 / torch.arange(1, 41).float())

    def norm(self, body: Tensor, site: int) -> Tensor:
        norm = self.norms[site]
        groups = 2 if self.has("groups of a norm", site) else 4
        eps = 0.3 if self.has("norm epsilon", site) else 1e-5
        if self.has("naive variance", site):
            spread = body.view(1, 4, 160) + 100
            mean = spread.mean(-1, keepdim=True)
            squared = (spread * spread).mean(-1, keepdim=True)
            variance = squared - mean * mean
            normed = (spread - mean) * torch.rsqrt(variance + 1e-5)
            return normed.view(1, 16, 40)
        return F.group_norm(body, groups, norm.weight, norm.bias, eps)

    def forward(self, x: Tensor) -> Tensor:
        summed = torch.cumsum(x, -1)
        if self.has("sum without its own step"):
            summed = summed - x
        running = summed * self.counts
        body = x + running
        skips = body
        for site, conv in enumerate(self.convs):
            far = 2**site
            padded = F.pad(
                body, (0, 2 * far) if self.has("causal padding on the other side", site) else (2 * far, 0)
            )
            if self.has("dilation dropped", site - 1):
                mixed = F.conv1d(padded[..., 2 * far - 2 :], conv.weight, conv.bias)
            else:
                mixed = conv(padded)
            value, gate = mixed.chunk(2, 1)
            if self.has("gates exchanged", site):
                value, gate = gate, value
            opened = torch.tanh(value) * torch.sigmoid(gate)
            made = self.points[site](opened)
            skips = skips + (body if self.has("skip of another block", site) else made)
            body = self.norm(body + made, site)
        return self.head(F.relu(skips) + body)


class Speech(Faulty):
    """Frames of a sound to symbols: a Fourier transform, mel bands, a logarithm, a bidirectional LSTM."""

    shape = (1, 20, 64)
    faults = (
        Written("window missing", "windowed|re|im", "missing operation|scale|weights|constant"),
        Written(
            "magnitude for power",
            "power|bands|type:sqrt",
            "missing operation|other operation|wrong argument|extra operation",
        ),
        Written("mel bands reversed", "bands", "weights|layout|constant"),
        Written("decimal logarithm", "logs|type:mul|type:log", "scale|other operation|constant"),
        Written("logarithm floor", "logs|floored", "constant|epsilon|offset"),
        Written("gate order", "steps|type:lstm", "weights|swapped weights|layout"),
        Written(
            "directions exchanged",
            "steps|type:lstm|type:concat",
            "weights|swapped weights|setting|swapped arguments|layout",
        ),
        Written("softmax over frames", "chances|type:softmax", "setting|constant|other operation"),
        Written(
            "logits for probabilities",
            "type:softmax|chances|named|head|type:linear|type:mul",
            "missing operation|scale|offset",
        ),
        Written("log of tiny powers", "floored|tiny|logs|bands", "epsilon|underflow", is_precision=True),
    )

    def __init__(self, fault: str | None = None, site: int = 0) -> None:
        super().__init__(fault, site)
        n, k = torch.arange(64)[:, None], torch.arange(33)[None]
        self.register_buffer("across", torch.cos(2 * math.pi * n * k / 64))
        self.register_buffer("down", torch.sin(2 * math.pi * n * k / 64))
        self.register_buffer("window", torch.hann_window(64))
        centres = torch.linspace(1, 32, 16)
        self.register_buffer("mel", (1 - (torch.arange(33)[:, None] - centres[None]).abs() / 3).clamp(0))
        self.cells = nn.LSTM(16, 12, batch_first=True, bidirectional=True)
        self.head = nn.Linear(24, 20)
        with torch.no_grad():
            names = ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"]
            for name in names:
                one = getattr(self.cells, name)
                if fault == "gate order":
                    i, f, g, o = one.clone().chunk(4)
                    one.copy_(torch.cat([i, f, o, g]))
                if fault == "directions exchanged":
                    other = getattr(self.cells, f"{name}_reverse")
                    kept = one.clone()
                    one.copy_(other)
                    other.copy_(kept)
            if fault == "mel bands reversed":
                self.mel.copy_(self.mel.clone().flip(1))

    def forward(self, x: Tensor) -> Tensor:
        windowed = x if self.has("window missing") else x * self.window
        re, im = windowed @ self.across, windowed @ self.down
        power = re * re + im * im
        if self.has("magnitude for power"):
            power = torch.sqrt(power + 1e-6)
        if self.has("log of tiny powers"):
            power = power * 1e-6
        bands = power @ self.mel
        floor = 1e-9 if self.has("log of tiny powers") else 0.1 if self.has("logarithm floor") else 1e-3
        floored = bands + floor
        logs = torch.log10(floored) if self.has("decimal logarithm") else torch.log(floored)
        steps, _ = self.cells(logs)
        named = self.head(steps) * 4
        if self.has("logits for probabilities"):
            return named
        chances = named.softmax(1 if self.has("softmax over frames") else -1)
        return chances  # noqa: RET504


class Painter(Faulty):
    """Pictures to pictures: scaled pixels, a pooling, transposed convolutions, instance normalizations."""

    shape = (1, 3, 32, 32)
    faults = (
        Written("mean of reversed colours", "centred|type:sub|pixels", "constant|weights|offset|layout"),
        Written(
            "deviation missing",
            "pixels|type:real_div|type:mul|centred|down|type:conv",
            "missing operation|scale|weights",
        ),
        Written(
            "statistics exchanged",
            "type:batch_norm|type:conv|down",
            "weights|swapped weights|constant|scale",
            sites=2,
        ),
        Written("norm factor missing", "type:batch_norm|type:conv|down", "weights|constant|scale", sites=2),
        Written("padding counted", "pooled|type:avg_pool", "setting"),
        Written("maximum for average", "pooled|type:.*_pool", "other operation|setting"),
        Written(
            "transposed output shifted",
            "up|type:conv_transpose|type:slice_by_index",
            "setting|layout",
            sites=2,
        ),
        Written(
            "instance norm missing",
            "even|type:instance_norm|up|type:conv_transpose",
            "missing operation",
            sites=2,
        ),
        Written(
            "skip after the activation",
            "joined|type:add|type:concat|type:relu",
            "wrong argument|missing operation|swapped arguments|other operation",
        ),
        Written("join in another order", "joined|type:concat", "swapped arguments|wrong argument|layout"),
    )

    def __init__(self, fault: str | None = None, site: int = 0) -> None:
        super().__init__(fault, site)
        self.convs = nn.ModuleList(nn.Conv2d(3 if i == 0 else 12, 12, 3, 1, 1, bias=False) for i in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(12) for _ in range(2))
        self.ups = nn.ModuleList(nn.ConvTranspose2d(12, 12, 3, 2, 1, 1) for _ in range(2))
        self.last = nn.Conv2d(24, 3, 1)
        for place, norm in enumerate(self.norms):
            nn.init.uniform_(norm.weight, 0.5, 1.5)
            nn.init.uniform_(norm.running_mean, 0.2, 0.8)
            nn.init.uniform_(norm.running_var, 0.5, 1.5)
            with torch.no_grad():
                if self.has("statistics exchanged", place):
                    kept = norm.running_mean.clone()
                    norm.running_mean.copy_(norm.running_var)
                    norm.running_var.copy_(kept)
                if self.has("norm factor missing", place):
                    norm.weight.fill_(1)
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.106]).view(1, 3, 1, 1))
        self.register_buffer("deviation", torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        centred = x - (self.mean.flip(1) if self.has("mean of reversed colours") else self.mean)
        pixels = centred if self.has("deviation missing") else centred / self.deviation
        down = F.relu(self.norms[0](self.convs[0](pixels)))
        pooled = F.avg_pool2d(down, 3, 2, 1, count_include_pad=self.has("padding counted"))
        if self.has("maximum for average"):
            pooled = F.max_pool2d(down, 3, 2, 1)
        low = self.norms[1](self.convs[1](pooled))
        down = F.relu(low)
        small = F.avg_pool2d(down, 2)
        up = small
        for site, layer in enumerate(self.ups):
            if self.has("transposed output shifted", site):
                up = F.conv_transpose2d(up, layer.weight, layer.bias, 2, 0)[..., :-1, :-1]
            else:
                up = layer(up)
            even = up if self.has("instance norm missing", site) else F.instance_norm(up)
            up = F.leaky_relu(even, 0.2)
            if site == 0:
                side = low if self.has("skip after the activation") else down
                up = up + side
        wide = F.interpolate(pooled, scale_factor=2, mode="nearest")
        joined = torch.cat([wide, up] if self.has("join in another order") else [up, wide], 1)
        return torch.tanh(self.last(joined))


class Words(Faulty):
    """Words to tags: two embeddings, a mean over the words that are there, labels."""

    shape = (1, 24)
    faults = (
        Written(
            "word off by one",
            "ids|words|shifted|type:gather|type:add",
            "offset|setting|constant|other operation|weights",
        ),
        Written("position off by one", "placed|positions|type:add", "weights|constant|layout|offset|setting"),
        Written(
            "padding counted in the mean",
            "there|total|mean|count|type:mul|type:reduce_.*",
            "missing operation|other operation|scale|offset|wrong argument",
        ),
        Written("maximum for sum", "total|type:reduce_.*", "other operation|missing operation"),
        Written("norm epsilon large", "even|type:layer_norm", "epsilon|constant|setting"),
        Written("square weight transposed", "deep|type:linear", "layout|weights|swapped weights"),
        Written(
            "one minus sigmoid",
            "rest|type:sub|type:sigmoid|chance|logs",
            "saturation|cancellation|epsilon|underflow",
            is_precision=True,
        ),
    )

    def __init__(self, fault: str | None = None, site: int = 0) -> None:
        super().__init__(fault, site)
        self.table = nn.Embedding(24, 32)
        self.positions = nn.Parameter(torch.randn(26, 32) * 0.7)
        self.norm, self.middle, self.head = nn.LayerNorm(32), nn.Linear(32, 32), nn.Linear(32, 9)
        if fault == "square weight transposed":
            with torch.no_grad():
                self.middle.weight.copy_(self.middle.weight.clone().T)
        if fault == "norm epsilon large":
            self.norm.eps = 0.5

    def forward(self, x: Tensor) -> Tensor:
        ids = (x.abs() * 8).clamp(0, 22).int()
        shifted = ids + 1 if self.has("word off by one") else ids
        words = self.table(shifted)
        first = 1 if self.has("position off by one") else 0
        placed = words + self.positions[first : first + 24]
        even = self.norm(placed)
        deep = F.gelu(self.middle(even))
        there = (ids > 3).float()[..., None]
        kept = deep if self.has("padding counted in the mean") else deep * there
        total = kept.amax(1) if self.has("maximum for sum") else kept.sum(1)
        mean = total / (there.sum(1) + 1)
        if self.has("one minus sigmoid"):
            chance = torch.sigmoid(self.head(mean) + 9)
            rest = 1 - chance
            return torch.log(rest + 1e-7)
        return self.head(mean)


WRITTEN: dict[str, type[Faulty]] = {
    "rotary": Rotary,
    "sharper": Sharper,
    "waves": Waves,
    "speech": Speech,
    "painter": Painter,
    "words": Words,
}
