"""Networks with the mistakes that are made when a network is ported by hand, or moved to fp16.

Conventions of another framework (padding, epsilon, the order of axes and gates), parts of windowed
attention, of detection and of quantization, preprocessing that the image type does, and arithmetic out of the
range of fp16.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from benchmarks.faults.written import Faulty, Written

__all__ = ["PORTED"]

_OTHER = "setting|constant|other operation|missing operation|extra operation|wrong argument|swapped arguments"


class Windows(Faulty):
    """Attention in shifted windows, a bias by relative position, a gain for each layer."""

    shape = (1, 3, 16, 16)
    faults = (
        Written(
            "windows not shifted back", "whole|type:concat|type:slice_by_index|x|gained", f"layout|{_OTHER}"
        ),
        Written(
            "shift to the other side", "moved|type:concat|type:slice_by_index|type:gather", f"layout|{_OTHER}"
        ),
        Written("windows by columns", "windows|type:transpose|type:reshape", f"layout|{_OTHER}"),
        Written("relative bias transposed", "biased|type:add", "layout|constant|weights|offset"),
        Written("relative bias missing", "biased|scores|weights|type:softmax", "missing operation|offset"),
        Written(
            "key ahead of query", "q|k|v|qkv|type:linear|scores|type:mul", f"weights|swapped weights|{_OTHER}"
        ),
        Written("heads interleaved", "q|k|v|qkv|type:reshape|type:transpose", f"layout|weights|{_OTHER}"),
        Written("heads joined untransposed", "joined|mixed|type:reshape|type:linear", f"layout|{_OTHER}"),
        Written("quick GELU", "opened|type:gelu|type:sigmoid|type:mul", f"{_OTHER}|scale"),
        Written("layer gain missing", "gained|kept|type:linear|type:add", "missing operation|scale|weights"),
        Written("norm over positions", "even|type:layer_norm|type:transpose", f"layout|{_OTHER}"),
        Written(
            "norm behind the sum",
            "even|x|type:layer_norm|type:add|type:gather|type:reshape|type:linear",
            f"{_OTHER}|offset",
        ),
    )

    def __init__(self, fault: str | None = None, site: int = 0) -> None:
        super().__init__(fault, site)
        self.patch = nn.Conv2d(3, 24, 2, 2)
        self.qkv, self.out = nn.Linear(24, 72), nn.Linear(24, 24)
        self.up, self.down = nn.Linear(24, 48), nn.Linear(48, 24)
        self.before, self.behind = nn.LayerNorm(24), nn.LayerNorm(24)
        self.bias = nn.Parameter(torch.randn(1, 3, 16, 16))
        self.gain = nn.Parameter(torch.rand(24) + 0.3)
        self.head = nn.Linear(24, 10)
        with torch.no_grad():
            self.qkv.weight *= 3

    def attend(self, windows: Tensor) -> Tensor:
        qkv = self.qkv(windows)
        if self.has("heads interleaved"):
            q, k, v = qkv.view(4, 16, 3, 3, 8).permute(3, 0, 2, 1, 4)
        else:
            q, k, v = qkv.view(4, 16, 3, 3, 8).permute(2, 0, 3, 1, 4)
        if self.has("key ahead of query"):
            q, k = k, q
        scores = (q * 8**-0.5) @ k.transpose(-2, -1)
        bias = self.bias.transpose(-2, -1) if self.has("relative bias transposed") else self.bias
        biased = scores if self.has("relative bias missing") else scores + bias
        weights = biased.softmax(-1)
        mixed = weights @ v
        if not self.has("heads joined untransposed"):
            mixed = mixed.transpose(1, 2)
        joined = mixed.reshape(4, 16, 24)
        return self.out(joined)

    def forward(self, image: Tensor) -> Tensor:
        x = self.patch(image).permute(0, 2, 3, 1)
        if self.has("norm over positions"):
            even = F.layer_norm(x.transpose(1, 3), (8,)).transpose(1, 3)
            even = even * self.before.weight + self.before.bias
        else:
            even = x if self.has("norm behind the sum") else self.before(x)
        step = 2 if self.has("shift to the other side") else -2
        moved = torch.roll(even, (step, step + 1), (1, 2))
        cut = moved.view(1, 2, 4, 2, 4, 24)
        windows = (
            cut.permute(0, 3, 1, 2, 4, 5) if self.has("windows by columns") else cut.permute(0, 1, 3, 2, 4, 5)
        )
        made = self.attend(windows.reshape(4, 16, 24))
        whole = made.view(1, 2, 2, 4, 4, 24).permute(0, 1, 3, 2, 4, 5).reshape(1, 8, 8, 24)
        if not self.has("windows not shifted back"):
            whole = torch.roll(whole, (2, 1), (1, 2))
        gained = whole if self.has("layer gain missing") else whole * self.gain
        x = x + gained
        if self.has("norm behind the sum"):
            x = self.before(x)
        inner = self.up(self.behind(x))
        opened = inner * torch.sigmoid(1.702 * inner * 0.8) if self.has("quick GELU") else F.gelu(inner)
        return self.head((x + self.down(opened)).mean((1, 2)))


class Mobile(Faulty):
    """A small mobile network, ported from a framework with other conventions."""

    shape = (1, 3, 32, 32)
    faults = (
        Written("padding at the end only", "padded|low|type:pad|type:conv", f"layout|{_OTHER}", sites=2),
        Written(
            "norm epsilon of the other framework",
            "type:batch_norm|type:conv|low|wide|deep",
            f"epsilon|weights|scale|{_OTHER}",
        ),
        Written("activation without its limit", "bounded|type:relu6|type:relu|type:clip", _OTHER),
        Written(
            "other hard sigmoid",
            "gate|type:sigmoid_hard|type:mul|type:add|type:clip",
            f"{_OTHER}|scale|offset",
        ),
        Written("kernel height and width exchanged", "type:conv|wide|deep", "layout|weights|swapped weights"),
        Written("scale by tensor for scale by channel", "type:conv|deep", "weights|scale|constant"),
        Written("zero point missing", "type:conv|deep", "weights|offset|constant"),
        Written("order of multiplied channels", "type:conv|wide", f"layout|weights|swapped weights|{_OTHER}"),
        Written(
            "flattened with channels last",
            "flat|type:reshape|type:linear|type:transpose",
            f"layout|weights|{_OTHER}",
        ),
        Written(
            "batch statistics",
            "deep|quiet|even|type:batch_norm|type:instance_norm|type:reduce_mean|type:sub|type:conv",
            f"weights|scale|offset|layout|{_OTHER}",
        ),
        Written(
            "pooling rounded up", "pooled|type:max_pool|type:slice_by_index|type:pad", f"layout|{_OTHER}"
        ),
        Written("stride at the other convolution", "type:conv|low|wide|bounded|padded", f"layout|{_OTHER}"),
        Written("excitation added", "excited|type:mul|type:add", f"{_OTHER}|scale|offset"),
        Written(
            "reference in training mode",
            "deep|quiet|type:batch_norm|type:conv",
            f"weights|scale|offset|layout|{_OTHER}",
            reference="training",
        ),
    )

    def __init__(self, fault: str | None = None, site: int = 0) -> None:
        super().__init__(fault, site)
        self.first, self.point = nn.Conv2d(3, 8, 3, 2), nn.Conv2d(8, 8, 1)
        self.multiply = nn.Conv2d(8, 16, 3, padding=1, groups=8)
        self.second = nn.Conv2d(16, 16, 3, 2)
        self.norms = nn.ModuleList(nn.BatchNorm2d(n) for n in (8, 16))
        for norm in self.norms:
            nn.init.uniform_(norm.running_var, 2e-4, 4e-3)
            nn.init.normal_(norm.running_mean, std=0.01)
            nn.init.uniform_(norm.weight, 0.02, 0.06)
        self.squeeze, self.excite = nn.Conv2d(16, 8, 1), nn.Conv2d(8, 16, 1)
        self.head = nn.Linear(16 * 9, 10)
        self.register_buffer("codes", torch.randint(0, 256, (16, 16, 3, 3)).float())
        self.register_buffer("scales", torch.rand(16, 1, 1, 1) * 0.002 + 0.0005)
        self.register_buffer("zeros", torch.randint(100, 156, (16, 1, 1, 1)).float())

    def pad(self, x: Tensor, site: int) -> Tensor:
        at_end = self.has("padding at the end only", site)
        padded = F.pad(x, (0, 1, 0, 1) if at_end else (1, 0, 1, 0))
        return padded  # noqa: RET504

    def quantized(self) -> Tensor:
        scales = (
            self.scales[:1].expand(16, 1, 1, 1)
            if self.has("scale by tensor for scale by channel")
            else self.scales
        )
        zeros = 0 * self.zeros + 128 if self.has("zero point missing") else self.zeros
        return (self.codes - zeros) * scales

    def normed(self, x: Tensor, place: int, *, is_trained: bool = False) -> Tensor:
        norm = self.norms[place]
        eps = 1e-3 if self.has("norm epsilon of the other framework") and place == 0 else 1e-5
        mean, variance = norm.running_mean, norm.running_var
        if is_trained:
            mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3), unbiased=False)
            quiet = (x - mean.view(1, -1, 1, 1)) * torch.rsqrt(variance + eps).view(1, -1, 1, 1)
            return quiet * norm.weight.view(1, -1, 1, 1) + norm.bias.view(1, -1, 1, 1)
        return F.batch_norm(x, mean, variance, norm.weight, norm.bias, self.training, 0.1, eps)

    def forward(self, x: Tensor) -> Tensor:
        kernel = self.first.weight
        if self.has("kernel height and width exchanged"):
            kernel = kernel.transpose(-2, -1)
        padded = self.pad(x, 0)
        if self.has("stride at the other convolution"):
            low = self.normed(F.conv2d(padded, kernel, self.first.bias)[..., 1:, 1:], 0)
            low = F.conv2d(low, self.point.weight, self.point.bias, 2)
        else:
            low = self.normed(F.conv2d(padded, kernel, self.first.bias, 2), 0)
            low = self.point(low)
        low = low * 12
        bounded = F.relu(low) if self.has("activation without its limit") else F.relu6(low)
        if self.has("order of multiplied channels"):
            order = torch.arange(16).view(8, 2).T.flatten()
            wide = F.conv2d(bounded, self.multiply.weight[order], self.multiply.bias, 1, 1, 1, 8)
        else:
            wide = self.multiply(bounded)
        padded = self.pad(F.relu(wide), 1)
        deep = F.conv2d(padded, self.quantized(), self.second.bias, 2)
        even = self.normed(deep, 1, is_trained=self.has("batch statistics"))
        inner = self.excite(F.relu(self.squeeze(even.mean((2, 3), keepdim=True)))) * 6
        gate = (inner * 0.2 + 0.5).clamp(0, 1) if self.has("other hard sigmoid") else F.hardsigmoid(inner)
        excited = even + gate if self.has("excitation added") else even * gate
        if self.has("pooling rounded up"):
            pooled = F.max_pool2d(excited, 3, 2, 1, ceil_mode=True)[..., 1:4, 1:4]
        else:
            pooled = F.max_pool2d(excited, 3, 2)
        flat = (pooled.permute(0, 2, 3, 1) if self.has("flattened with channels last") else pooled).flatten(1)
        return self.head(flat)


class Steps(Faulty):
    """A recurrent network whose cells are written out, on normalized features and their differences."""

    shape = (1, 8, 16)
    faults = (
        Written(
            "deviation by n",
            "deviation|type:sqrt|type:mul|type:real_div|type:reduce_.*|even|type:add",
            f"scale|{_OTHER}",
        ),
        Written(
            "statistics over features",
            "mean|even|type:reduce_mean|type:reduce_.*|type:sub|deviation",
            f"layout|{_OTHER}",
        ),
        Written(
            "difference of the other side",
            "difference|type:sub|type:slice_by_index|type:concat|type:pad|before",
            f"sign|layout|{_OTHER}",
        ),
        Written(
            "initial state missing",
            "h|reset|update|new|type:linear|type:add|type:mul|recurrent",
            f"offset|weights|{_OTHER}",
        ),
        Written("update gate exchanged", "h|type:mul|kept|fresh|type:sub|type:add", f"sign|{_OTHER}"),
        Written(
            "reset ahead of the product",
            "new|recurrent|type:mul|type:linear|inner|type:tanh",
            f"{_OTHER}|scale",
        ),
        Written(
            "recurrent bias missing",
            "recurrent|type:linear|type:matmul|h|reset|update|new|type:add",
            f"offset|weights|{_OTHER}",
        ),
        Written(
            "steps backwards",
            "h|step|given|type:slice_by_index|type:gather|type:linear|type:split|type:squeeze|type:add",
            f"layout|{_OTHER}",
        ),
        Written("hard tanh", "new|type:tanh|type:clip|type:.*", _OTHER),
        Written(
            "last step for the mean",
            "pooled|type:reduce_mean|type:slice_by_index|head|type:linear",
            f"{_OTHER}|layout",
        ),
    )

    def __init__(self, fault: str | None = None, site: int = 0) -> None:
        super().__init__(fault, site)
        self.given, self.recurrent = nn.Linear(32, 36), nn.Linear(12, 36)
        self.start, self.head = nn.Parameter(torch.randn(1, 12)), nn.Linear(12, 6)

    def features(self, x: Tensor) -> Tensor:
        axis = 2 if self.has("statistics over features") else 1
        mean = x.mean(axis, keepdim=True)
        centred = x - mean
        count = 8 if self.has("deviation by n") else 7
        deviation = torch.sqrt(centred.square().sum(axis, keepdim=True) / count + 1e-4)
        even = centred / deviation
        nothing = torch.zeros(1, 1, 16)
        if self.has("difference of the other side"):
            difference = torch.cat([even[:, 1:], nothing], 1) - even
        else:
            difference = even - torch.cat([nothing, even[:, :-1]], 1)
        return torch.cat([even, difference], -1)

    def forward(self, x: Tensor) -> Tensor:
        given = self.given(self.features(x))
        h = torch.zeros(1, 12) if self.has("initial state missing") else self.start
        states = []
        for place in range(8):
            step = given[:, 7 - place if self.has("steps backwards") else place]
            bias = None if self.has("recurrent bias missing") else self.recurrent.bias
            reset_in, update_in, new_in = step.chunk(3, -1)
            recurrent = F.linear(h, self.recurrent.weight, bias)
            reset_re, update_re, new_re = recurrent.chunk(3, -1)
            reset, update = torch.sigmoid(reset_in + reset_re), torch.sigmoid(update_in + update_re)
            if self.has("reset ahead of the product"):
                new_re = F.linear(reset * h, self.recurrent.weight[24:], self.recurrent.bias[24:])
                inner = new_in + new_re
            else:
                inner = new_in + reset * new_re
            new = F.hardtanh(inner) if self.has("hard tanh") else torch.tanh(inner)
            if self.has("update gate exchanged"):
                h = update * new + (1 - update) * h
            else:
                h = update * h + (1 - update) * new
            states.append(h)
        pooled = h if self.has("last step for the mean") else torch.stack(states, 1).mean(1)
        return self.head(pooled)


class Boxes(Faulty):
    """A detector with anchors on two levels, its boxes decoded."""

    shape = (1, 3, 32, 32)
    faults = (
        Written(
            "width and height exchanged",
            "size|anchors|type:mul|type:slice_by_index",
            f"layout|weights|{_OTHER}",
            sites=2,
        ),
        Written("strides exchanged", "centre|type:mul", "constant|scale|swapped weights|weights", sites=2),
        Written("half a cell missing", "near|centre|type:add|type:sub|cells", f"offset|{_OTHER}", sites=2),
        Written(
            "rows and columns exchanged", "near|centre|type:add|cells", f"layout|weights|{_OTHER}", sites=2
        ),
        Written("objectness without its sigmoid", "sure|there|type:mul|type:sigmoid", _OTHER, sites=2),
        Written("softmax over the boxes", "chances|type:softmax", _OTHER, sites=2),
        Written(
            "corners without the half",
            "corner|low|high|half|type:mul|type:sub|type:add",
            f"scale|{_OTHER}",
            sites=2,
        ),
        Written("levels in the other order", "boxes|type:concat|all", f"layout|{_OTHER}"),
        Written(
            "exponential for the square",
            "grown|size|type:exp|type:square|type:mul|type:pow",
            f"{_OTHER}|scale",
            sites=2,
        ),
        Written(
            "channels split as anchors last",
            "cells|raw|type:reshape|type:transpose|type:slice_by_index|split",
            f"layout|{_OTHER}",
            sites=2,
        ),
        Written(
            "up-sampling of the other level missing",
            "joined|two|type:add|type:conv|type:upsample.*",
            f"offset|{_OTHER}",
        ),
    )

    def __init__(self, fault: str | None = None, site: int = 0) -> None:
        super().__init__(fault, site)
        self.one, self.two = nn.Conv2d(3, 12, 3, 4, 1), nn.Conv2d(12, 12, 3, 2, 1)
        self.heads = nn.ModuleList(nn.Conv2d(12, 2 * 8, 1) for _ in range(2))
        self.register_buffer("anchors", torch.tensor([[[3.0, 5.0], [9.0, 4.0]], [[10.0, 14.0], [20.0, 9.0]]]))

    def decode(self, x: Tensor, site: int) -> tuple[Tensor, Tensor]:
        side = x.shape[-1]
        raw = self.heads[site](x) * 3
        if self.has("channels split as anchors last", site):
            split = raw.view(1, 8, 2, side, side).permute(0, 2, 3, 4, 1)
        else:
            split = raw.view(1, 2, 8, side, side).permute(0, 1, 3, 4, 2)
        places = torch.arange(side).float() + (0 if self.has("half a cell missing", site) else 0.5)
        order = "ij" if self.has("rows and columns exchanged", site) else "xy"
        cells = torch.stack(torch.meshgrid(places, places, indexing=order), -1)
        stride = (8, 4)[site] if self.has("strides exchanged", site) else (4, 8)[site]
        near = torch.tanh(split[..., :2]) + cells
        centre = near * stride
        anchors = self.anchors[site].view(1, 2, 1, 1, 2)
        if self.has("width and height exchanged", site):
            anchors = anchors.flip(-1)
        opened = split[..., 2:4].sigmoid() * 2
        grown = opened.exp() if self.has("exponential for the square", site) else opened.square()
        size = grown * anchors
        half = size if self.has("corners without the half", site) else size * 0.5
        corner = torch.cat([centre - half, centre + half], -1).view(1, -1, 4)
        there = (
            split[..., 4:5] if self.has("objectness without its sigmoid", site) else split[..., 4:5].sigmoid()
        )
        chances = split[..., 5:].softmax(1 if self.has("softmax over the boxes", site) else -1)
        sure = chances * there
        return corner, sure.view(1, -1, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        one = F.silu(self.one(x))
        two = F.silu(self.two(one))
        joined = one
        if not self.has("up-sampling of the other level missing"):
            joined = one + F.interpolate(two, scale_factor=2, mode="nearest")
        found = [self.decode(joined, 0), self.decode(two, 1)]
        if self.has("levels in the other order"):
            found = found[::-1]
        boxes, chances = torch.cat([f[0] for f in found], 1), torch.cat([f[1] for f in found], 1)
        return boxes, chances


class Tokens(Faulty):
    """Words to vectors: hashed embeddings, a mask of padding, a bias in a square of words."""

    shape = (1, 16)
    faults = (
        Written(
            "hash in int32",
            "hashed|mixed_ids|buckets|type:mul|type:mod|type:.*div|type:gather|words|type:cast",
            f"overflow|cast|integers|offset|layout|{_OTHER}",
            reference="same",
        ),
        Written(
            "embedding scale missing",
            "words|placed|type:gather|type:mul|type:add",
            "missing operation|scale|weights",
        ),
        Written(
            "mask inverted",
            "mask|masked|type:sub|type:add|type:mul|type:cast|there|type:select|type:expand_dims",
            f"sign|offset|scale|{_OTHER}",
        ),
        Written(
            "mask without its factor",
            "mask|masked|type:sub|type:add|type:mul|type:select|type:expand_dims",
            f"scale|offset|{_OTHER}",
        ),
        Written(
            "bias along the other axis", "leaning|masked|scores|type:add", f"layout|weights|offset|{_OTHER}"
        ),
        Written("softmax over queries", "weights|type:softmax", _OTHER),
        Written("square kernel transposed", "q|type:linear|type:matmul", "layout|weights|swapped weights"),
        Written("first token for the mean", "pooled|type:reduce_.*|type:slice_by_index", f"{_OTHER}|layout"),
        Written(
            "length in place of its root",
            "long|unit|type:sqrt|type:real_div|type:rsqrt|type:reduce_.*|type:mul",
            f"{_OTHER}|scale",
        ),
        Written("temperature inverted", "scaled|logits|type:mul|type:real_div", f"scale|{_OTHER}"),
    )

    def __init__(self, fault: str | None = None, site: int = 0) -> None:
        super().__init__(fault, site)
        self.table = nn.Embedding(64, 24)
        with torch.no_grad():
            self.table.weight *= 0.3
        self.places = nn.Parameter(torch.randn(16, 24))
        self.q, self.k, self.v = (nn.Linear(24, 24, bias=False) for _ in range(3))
        self.lean = nn.Parameter(torch.randn(16) * 2)
        self.classes = nn.Parameter(torch.randn(9, 24))

    def forward(self, x: Tensor) -> Tensor:
        ids = (x.abs() * 40).clamp(0, 1000).long()
        mixed_ids = ids * (265443576 if self.has("hash in int32") else 40503)
        buckets = torch.remainder(mixed_ids, 61)
        words = self.table(buckets)
        placed = (words if self.has("embedding scale missing") else words * 24**0.5) + self.places
        q = F.linear(placed, self.q.weight.T if self.has("square kernel transposed") else self.q.weight)
        scores = q @ self.k(placed).transpose(-2, -1) * 24**-0.5
        lean = self.lean[:, None] if self.has("bias along the other axis") else self.lean[None]
        leaning = scores + lean
        there = (ids > 12).float()
        mask = there if self.has("mask inverted") else 1 - there
        factor = 1 if self.has("mask without its factor") else -1e4
        masked = leaning + (mask * factor)[:, None]
        weights = masked.softmax(-2 if self.has("softmax over queries") else -1)
        seen = weights @ self.v(placed)
        pooled = seen[:, 0] if self.has("first token for the mean") else seen.mean(1)
        squares = pooled.square().sum(-1, keepdim=True) + 1e-6
        long = squares if self.has("length in place of its root") else squares.sqrt()
        unit = pooled / long
        logits = unit @ F.normalize(self.classes, dim=-1).T
        scaled = logits * (0.07 if self.has("temperature inverted") else 1 / 0.07)
        return scaled.softmax(-1)


class Ranges(Faulty):
    """Arithmetic that fp16 does not hold: each fault is the only such place of its network."""

    shape = (1, 64, 16)
    faults = (
        Written(
            "softplus written out",
            "grown|type:exp|logs|more|type:add|type:log",
            "overflow",
            is_precision=True,
        ),
        Written(
            "epsilon of a length", "size|long|unit|type:.*", "epsilon|underflow|overflow", is_precision=True
        ),
        Written(
            "sum of many",
            "total|type:reduce_sum|type:cumsum|squares|raised",
            "overflow|accumulation",
            is_precision=True,
        ),
        Written(
            "positions past 2048",
            "places|angles|type:add|type:mul|type:cast|type:sin",
            "integers|cancellation|accumulation|overflow",
            is_precision=True,
        ),
        Written(
            "best of near ones",
            "best|logits|near|type:reduce_argmax|type:add|type:topk",
            "tie|cancellation|integers",
            is_precision=True,
        ),
        Written(
            "tiny denominator",
            "share|part|total|type:real_div|type:mul|type:reduce_sum",
            "epsilon|underflow|overflow",
            is_precision=True,
        ),
        Written(
            "log of a softmax",
            "chances|logs|type:softmax|type:log|type:add",
            "underflow|epsilon|saturation|overflow",
            is_precision=True,
        ),
        Written(
            "distance by expansion",
            "distance|gap|expanded|type:sub|type:matmul|type:add",
            "cancellation|accumulation|overflow",
            is_precision=True,
        ),
        Written(
            "product of many", "left|type:.*", "underflow|accumulation|overflow|saturation", is_precision=True
        ),
        Written(
            "large coordinates",
            "corner|far|edge|type:sub|type:add|type:mul",
            "cancellation|integers|accumulation",
            is_precision=True,
        ),
        Written(
            "power overflow", "cubes|raised|type:pow|type:mul|type:reduce_mean", "overflow", is_precision=True
        ),
    )

    def __init__(self, fault: str | None = None, site: int = 0) -> None:
        super().__init__(fault, site)
        self.first, self.last = nn.Linear(16, 24), nn.Linear(24, 8)

    def middle(self, x: Tensor) -> Tensor:
        if self.has("softplus written out"):
            grown = (x * 8).exp()
            more = grown + 1
            return torch.log(more) * 0.02
        if self.has("epsilon of a length"):
            small = F.relu(x[..., :1]) * x
            squares = small * small
            size = squares.sum(-1, keepdim=True) + 1e-8
            return small * torch.rsqrt(size)
        if self.has("sum of many"):
            raised = x * 40 + 90
            squares = raised * raised
            total = squares.sum((1, 2), keepdim=True)
            return raised * torch.rsqrt(total * (1 / 1536))
        if self.has("positions past 2048"):
            places = torch.arange(64)[None, :, None].float() + 4000.5 + torch.round(x[..., :1].sigmoid())
            angles = places * torch.exp(-torch.arange(24) / 6)
            return x + angles.sin()
        if self.has("best of near ones"):
            near = x * 0.01 + 30
            best = near.argmax(-1, keepdim=True)
            return x + best.float()
        if self.has("tiny denominator"):
            part = x.square() * 1e-8
            total = part.sum(-1, keepdim=True)
            share = part / (total + 1e-12)
            return share * 4
        if self.has("log of a softmax"):
            chances = (x * 20).softmax(-1)
            logs = torch.log(chances + 1e-12)
            return logs * 0.1
        if self.has("distance by expansion"):
            far = x + 20
            squares = far.square().sum(-1, keepdim=True)
            expanded = squares + squares.transpose(1, 2) - 2 * (far @ far.transpose(1, 2))
            return (-expanded).softmax(-1) @ x
        if self.has("product of many"):
            left = torch.exp(torch.cumsum(torch.log(x.sigmoid() * 0.6), 1))
            return x * left / (left.mean(1, keepdim=True) + 1e-9) + left[:, 40:41] * 1e30
        if self.has("large coordinates"):
            centre = x * 0.2 + 3000
            edge = centre + x.abs()
            return edge - centre
        if self.has("power overflow"):
            raised = x * 30 + 10
            cubes = raised**4
            return raised / (cubes.mean(-1, keepdim=True) + 1) ** 0.25
        return x

    def forward(self, x: Tensor) -> Tensor:
        deep = self.middle(self.first(x) * 2)
        return self.last(torch.tanh(deep)).mean(1)


class Photo(Faulty):
    """A classifier of photos, whose preprocessing is done by the image type."""

    shape = (1, 3, 32, 32)
    faults = (
        Written("image in blue, green, red", "x|type:conv|type:.*", f"layout|weights|scale|offset|{_OTHER}"),
        Written("image without its scale", "x|type:conv|type:.*", f"scale|weights|{_OTHER}"),
        Written("image without its bias", "x|type:conv|type:.*", f"offset|weights|{_OTHER}"),
        Written("image scaled to one", "x|type:conv|type:.*", f"scale|offset|weights|{_OTHER}"),
    )

    def __init__(self, fault: str | None = None, site: int = 0) -> None:
        super().__init__(fault, site)
        self.conv, self.norm = nn.Conv2d(3, 12, 3, 2, 1), nn.BatchNorm2d(12)
        self.next, self.head = nn.Conv2d(12, 12, 3, 2, 1), nn.Linear(12, 10)

        self.is_given_pixels = False

    @property
    def image(self) -> dict[str, Any]:
        """The options of the image type, with the fault."""
        scale = {"image without its scale": 1.0, "image scaled to one": 1 / 255}.get(
            self.fault or "", 1 / 127.5
        )
        bias = None if self.has("image without its bias") else [-1.0, -0.9, -0.8]
        return {"scale": scale, "bias": bias, "is_bgr": self.has("image in blue, green, red")}

    def forward(self, x: Tensor) -> Tensor:
        if self.is_given_pixels:
            x = x / 127.5 - torch.tensor([1.0, 0.9, 0.8]).view(1, 3, 1, 1)
        deep = F.relu(self.norm(self.conv(x)))
        return self.head(F.relu(self.next(deep)).mean((2, 3)))


PORTED: dict[str, type[Faulty]] = {
    "windows": Windows,
    "mobile": Mobile,
    "steps": Steps,
    "boxes": Boxes,
    "tokens": Tokens,
    "ranges": Ranges,
    "photo": Photo,
}
