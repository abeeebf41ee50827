"""Networks of pictures of further families, with the mistakes that are made when they are ported.

A change of the program can mend each. A stack of depthwise blocks with channels last, one with squeezed
gates, a denoising block with skips, a pose estimator, and a detector that keeps its best boxes.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from benchmarks.faults.written import Faulty, Written

__all__ = ["VISION"]

_OTHER = "setting|constant|other operation|missing operation|extra operation|wrong argument|swapped arguments"


def _with_statistics(norm: nn.BatchNorm2d) -> nn.BatchNorm2d:
    """Gives a normalization statistics and factors as a trained one has."""
    channels = norm.num_features
    for buffer, low, high in ((norm.running_mean, -0.6, 0.6), (norm.running_var, 0.3, 2.0)):
        assert buffer is not None
        buffer.copy_(torch.rand(channels) * (high - low) + low)
    with torch.no_grad():
        norm.weight.copy_(torch.rand(channels) + 0.5)
        norm.bias.copy_(torch.randn(channels) * 0.3)
    return norm


class Last(Faulty):
    """Depthwise convolutions, layers over the channels as the last axis, a gain for each block."""

    shape = (1, 3, 32, 32)
    faults = (
        Written("depthwise kernel transposed", "local|type:conv", "layout|weights", sites=2),
        Written(
            "gain and bias of a norm exchanged",
            "even|type:layer_norm|type:mul|type:add",
            "weights|swapped weights|swapped arguments|constant",
            sites=2,
        ),
        Written(
            "gain of the other block",
            "scaled|type:linear|type:mul",
            "weights|swapped weights|constant|wrong argument|scale",
            sites=2,
        ),
        Written("row of a weight zeroed", "opened|wide|type:linear", "weights", sites=2),
        Written("residual missing", "x|scaled|type:transpose|local|low", "missing operation|offset", sites=2),
        Written("reduced with dilation", "low|type:conv", "setting"),
    )

    def __init__(self, fault: str | None = None, site: int = 0) -> None:
        super().__init__(fault, site)
        self.stem, self.first = nn.Conv2d(3, 16, 2, 2), nn.LayerNorm(16)
        self.locals = nn.ModuleList(nn.Conv2d(16, 16, 5, padding=2, groups=16) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(16, eps=1e-6) for _ in range(2))
        self.wides = nn.ModuleList(nn.Linear(16, 48) for _ in range(2))
        self.narrows = nn.ModuleList(nn.Linear(48, 16) for _ in range(2))
        self.gains = nn.ParameterList(nn.Parameter(torch.rand(16) + 0.2) for _ in range(2))
        self.reduce, self.head = nn.Conv2d(16, 24, 3, 2, 1), nn.Linear(24, 10)
        with torch.no_grad():
            for norm in self.norms:
                norm.weight.copy_(torch.rand(16) + 0.5)
                norm.bias.copy_(torch.randn(16) * 0.4)
            if fault == "row of a weight zeroed":
                self.wides[site].weight[[7, 30]] = 0

    def block(self, x: Tensor, site: int) -> Tensor:
        layer, norm, wide = self.locals[site], self.norms[site], self.wides[site]
        kernel = layer.weight
        if self.has("depthwise kernel transposed", site):
            kernel = kernel.transpose(2, 3)
        local = F.conv2d(x, kernel, layer.bias, padding=2, groups=16).permute(0, 2, 3, 1)
        gain, bias = norm.weight, norm.bias
        if self.has("gain and bias of a norm exchanged", site):
            gain, bias = bias, gain
        even = F.layer_norm(local, (16,), gain, bias, 1e-6)
        opened = F.gelu(wide(even))
        which = 1 - site if self.has("gain of the other block", site) else site
        scaled = self.narrows[site](opened) * self.gains[which]
        scaled = scaled.permute(0, 3, 1, 2)
        return scaled if self.has("residual missing", site) else x + scaled

    def forward(self, image: Tensor) -> Tensor:
        x = self.first(self.stem(image).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        for site in range(2):
            x = self.block(x, site)
        if self.has("reduced with dilation"):
            low = F.conv2d(x, self.reduce.weight, self.reduce.bias, 2, 2, 2)
        else:
            low = self.reduce(x)
        return self.head(F.gelu(low).mean((2, 3)))


class Gated(Faulty):
    """Inverted bottlenecks whose channels are weighted by a squeezed gate, with swishes."""

    shape = (1, 3, 32, 32)
    faults = (
        Written(
            "variance for deviation",
            "wide|even|x|type:conv|type:batch_norm|type:mul",
            "weights|scale|constant|epsilon",
            sites=3,
        ),
        Written(
            "running mean not loaded",
            "even|wide|type:conv|type:batch_norm",
            "weights|offset|constant",
            sites=3,
        ),
        Written("gate from ahead of the filter", "squeezed|type:reduce_mean", "wrong argument", sites=3),
        Written(
            "gate without its inner bias", "inner|type:conv|type:silu", "weights|offset|constant", sites=3
        ),
        Written("rectifier in the gate", "inner|type:relu|type:silu", "other operation", sites=3),
        Written("strides of two blocks exchanged", "deep|type:conv", f"layout|{_OTHER}"),
        Written("scaled by the share that is kept", "x|kept|type:mul|type:conv", f"scale|weights|{_OTHER}"),
        Written("rectifier with a limit", "high|type:relu6|type:silu|type:clip", "other operation"),
    )

    def __init__(self, fault: str | None = None, site: int = 0) -> None:
        super().__init__(fault, site)
        self.stem = nn.Conv2d(3, 12, 3, 2, 1, bias=False)
        self.stem_norm = _with_statistics(nn.BatchNorm2d(12, eps=1e-3))
        self.strides = (2, 1, 1)
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "wide": nn.Conv2d(12, 36, 1, bias=False),
                    "even": _with_statistics(nn.BatchNorm2d(36, eps=1e-3)),
                    "deep": nn.Conv2d(36, 36, 3, groups=36, bias=False),
                    "deep_norm": _with_statistics(nn.BatchNorm2d(36, eps=1e-3)),
                    "inner": nn.Conv2d(36, 6, 1),
                    "outer": nn.Conv2d(6, 36, 1),
                    "narrow": nn.Conv2d(36, 12, 1, bias=False),
                    "last": _with_statistics(nn.BatchNorm2d(12, eps=1e-3)),
                }
            )
            for _ in range(3)
        )
        self.top, self.head = nn.Conv2d(12, 32, 1), nn.Linear(32, 10)
        with torch.no_grad():
            for layers in self.blocks:
                for name, factor in (("deep", 3), ("inner", 3), ("outer", 5), ("narrow", 2)):
                    layers[name].weight *= factor

    def normalize(self, x: Tensor, norm: nn.BatchNorm2d, site: int) -> Tensor:
        mean, variance = norm.running_mean, norm.running_var
        assert mean is not None
        assert variance is not None
        if self.has("running mean not loaded", site):
            mean = torch.zeros_like(mean)
        if self.has("variance for deviation", site):
            scale = norm.weight / (variance + norm.eps)
            return x * scale.view(1, -1, 1, 1) + (norm.bias - mean * scale).view(1, -1, 1, 1)
        return F.batch_norm(x, mean, variance, norm.weight, norm.bias, eps=norm.eps)

    def block(self, x: Tensor, layers: nn.ModuleDict, site: int, stride: int) -> Tensor:
        wide = layers["wide"](x)
        even = F.silu(self.normalize(wide, layers["even"], site))
        deep = F.conv2d(even, layers["deep"].weight, None, stride, 1, groups=36)
        deep = F.silu(layers["deep_norm"](deep))
        squeezed = even if self.has("gate from ahead of the filter", site) else deep
        squeezed = squeezed.mean((2, 3), keepdim=True)
        bias = None if self.has("gate without its inner bias", site) else layers["inner"].bias
        inner = F.conv2d(squeezed, layers["inner"].weight, bias)
        inner = F.relu(inner) if self.has("rectifier in the gate", site) else F.silu(inner)
        gated = deep * layers["outer"](inner).sigmoid()
        kept = layers["last"](layers["narrow"](gated))
        if site != 2:
            return kept
        return x + (kept * 0.8 if self.has("scaled by the share that is kept") else kept)

    def forward(self, image: Tensor) -> Tensor:
        x = F.silu(self.stem_norm(self.stem(image)))
        strides = (1, 2, 1) if self.has("strides of two blocks exchanged") else self.strides
        for site, layers in enumerate(self.blocks):
            x = self.block(x, layers, site, strides[site])
        high = self.top(x) * 3
        high = F.relu6(high) if self.has("rectifier with a limit") else F.silu(high)
        return self.head(high.mean((2, 3)))


class Denoiser(Faulty):
    """A step of a diffusion model: the time as sines, group norms, skips, attention over pixels."""

    shape = (1, 5, 16, 16)
    faults = (
        Written("sines ahead of cosines", "waves|type:concat|timed|type:linear", f"layout|weights|{_OTHER}"),
        Written("frequencies of one less", "angles|type:mul|type:cos|type:sin", f"scale|weights|{_OTHER}"),
        Written(
            "scale and shift exchanged",
            "scale|shift|moved|type:mul|type:add|type:split",
            f"layout|{_OTHER}",
            sites=2,
        ),
        Written("scale without its one", "moved|type:mul|type:add|scaled", f"offset|scale|{_OTHER}", sites=2),
        Written("heads within the channels", "q|k|v|type:reshape|type:transpose", f"layout|weights|{_OTHER}"),
        Written("skips in the order of storing", "joined|type:concat", f"layout|{_OTHER}"),
        Written("swish of the time missing", "timed|type:silu|type:linear", f"layout|{_OTHER}"),
        Written(
            "group norm overflow",
            "type:.*square.*|type:mul|type:sub|type:reduce.*|type:pow|type:.*norm",
            "overflow",
            is_precision=True,
        ),
    )

    def __init__(self, fault: str | None = None, site: int = 0) -> None:
        super().__init__(fault, site)
        self.first, self.down = nn.Conv2d(4, 16, 3, padding=1), nn.Conv2d(16, 16, 3, 2, 1)
        self.time, self.time_out = nn.Linear(16, 32), nn.Linear(32, 24)
        self.moves = nn.ModuleList(nn.Linear(24, 32) for _ in range(2))
        self.norms = nn.ModuleList(nn.GroupNorm(4, 16) for _ in range(2))
        self.convs = nn.ModuleList(nn.Conv2d(16, 16, 3, padding=1) for _ in range(2))
        self.qkv, self.mix = nn.Conv2d(16, 48, 1), nn.Conv2d(16, 16, 1)
        self.joins = nn.ModuleList(nn.Conv2d(32, 16, 3, padding=1) for _ in range(2))
        self.last = nn.Conv2d(16, 4, 3, padding=1)

    def embed(self, time: Tensor) -> Tensor:
        steps = 7 if self.has("frequencies of one less") else 8
        frequencies = torch.exp(torch.arange(8) * (-math.log(1000.0) / steps))
        angles = time[:, None] * frequencies
        parts = [angles.cos(), angles.sin()]
        waves = torch.cat(parts[::-1] if self.has("sines ahead of cosines") else parts, -1)
        timed = self.time_out(F.silu(self.time(waves)))
        return timed if self.has("swish of the time missing") else F.silu(timed)

    def block(self, x: Tensor, timed: Tensor, site: int) -> Tensor:
        scale, shift = self.moves[site](timed)[:, :, None, None].chunk(2, 1)
        if self.has("scale and shift exchanged", site):
            scale, shift = shift, scale
        large = x * 900 if self.has("group norm overflow", site) else x
        even = self.norms[site](large)
        scaled = even * scale if self.has("scale without its one", site) else even * (1 + scale)
        moved = scaled + shift
        return x + self.convs[site](F.silu(moved))

    def attend(self, x: Tensor) -> Tensor:
        qkv = self.qkv(x * 2)
        if self.has("heads within the channels"):
            q, k, v = qkv.reshape(3, 4, 4, 64).transpose(1, 2)
        else:
            q, k, v = qkv.reshape(3, 4, 4, 64)
        scores = q.transpose(-2, -1) @ k * 0.5
        mixed = v @ scores.softmax(-1).transpose(-2, -1)
        return x + self.mix(mixed.reshape(1, 16, 8, 8))

    def forward(self, given: Tensor) -> Tensor:
        x, time = given[:, :4], given[:, 4].mean((1, 2)) * 80 + 20
        timed = self.embed(time)
        stored = [self.first(x)]
        stored.append(self.block(stored[-1], timed, 0))
        low = self.attend(self.down(stored[-1]))
        x = F.interpolate(self.block(low, timed, 1), scale_factor=2.0, mode="nearest")
        if self.has("skips in the order of storing"):
            stored.reverse()
        for join in self.joins:
            joined = torch.cat([x, stored.pop()], 1)
            x = F.silu(join(joined))
        return self.last(x)


class Pose(Faulty):
    """Heat maps of joints, the place of each by its maximum and by its mean, with a mirrored pass."""

    shape = (1, 3, 24, 32)
    faults = (
        Written(
            "index divided by the height", "row|column|type:floor_div|type:mod|type:.*div", f"scale|{_OTHER}"
        ),
        Written(
            "mirrored pass not mirrored back", "back|heat|both|type:reverse|type:add", f"layout|{_OTHER}"
        ),
        Written(
            "rows and columns of the grid",
            "mean_x|mean_y|places|type:mul|type:reduce_sum",
            f"layout|{_OTHER}",
        ),
        Written("features sampled by corners", "type:resample|sampled", "setting"),
        Written("features sampled from another map", "type:resample|sampled", "wrong argument"),
        Written("rounding for truncation", "cell|type:round|type:floor|type:cast", f"cast|offset|{_OTHER}"),
        Written("softmax over the joints", "shares|type:softmax", "setting|other operation"),
        Written(
            "maximum of saturated scores",
            "score|best|type:sigmoid|type:reduce_argmax",
            "tie|saturation",
            is_precision=True,
        ),
    )

    def __init__(self, fault: str | None = None, site: int = 0) -> None:
        super().__init__(fault, site)
        self.stem, self.next = nn.Conv2d(3, 16, 3, 2, 1), nn.Conv2d(16, 16, 3, 1, 1)
        self.maps, self.refine = nn.Conv2d(16, 6, 1), nn.Linear(16, 2)
        with torch.no_grad():
            self.next.weight *= 4
            self.maps.weight *= 4
            self.refine.weight *= 4

    def features(self, image: Tensor) -> Tensor:
        return F.relu(self.next(F.relu(self.stem(image))))

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        deep = self.features(image)
        mirrored = self.features(image.flip(3))
        back = self.maps(mirrored)
        if not self.has("mirrored pass not mirrored back"):
            back = back.flip(3)
        heat = self.maps(deep) + back
        flat = heat.reshape(1, 6, 192)
        if self.has("softmax over the joints"):
            shares = flat.softmax(1).reshape(1, 6, 12, 16)
        else:
            shares = flat.softmax(2).reshape(1, 6, 12, 16)
        down, across = torch.linspace(-1, 1, 12).view(12, 1), torch.linspace(-1, 1, 16)
        mean_x, mean_y = (shares * across).sum((2, 3)), (shares * down).sum((2, 3))
        both = [mean_y, mean_x] if self.has("rows and columns of the grid") else [mean_x, mean_y]
        places = torch.stack(both, -1)
        is_by_corners = self.has("features sampled by corners")
        source = mirrored if self.has("features sampled from another map") else deep
        sampled = F.grid_sample(source, places[:, None], align_corners=is_by_corners)[:, :, 0].transpose(1, 2)
        moved = places + self.refine(sampled)
        score = (flat * 2 + 9).sigmoid() if self.has("maximum of saturated scores") else flat
        best = score.argmax(2)
        width = 12 if self.has("index divided by the height") else 16
        row, column = best // width, best % width
        cell = (moved + 3) * 10
        cell = cell.round() if self.has("rounding for truncation") else cell.floor()
        return torch.cat([moved, cell], 2), torch.stack([row.float(), column.float()], 2)


class Finder(Faulty):
    """A detector with separable heads that decodes boxes and keeps the eight best."""

    shape = (1, 3, 32, 32)
    faults = (
        Written(
            "background at the other end", "classes|type:slice_by_index", "setting|other operation|layout"
        ),
        Written("lowest scores first", "type:topk|best|chosen", "setting|other operation|sign"),
        Written("boxes counted from one", "chosen|kept|type:add|type:gather.*", f"offset|{_OTHER}"),
        Written("variances exchanged", "centre|size|type:mul", f"scale|weights|{_OTHER}"),
        Written(
            "weights of two heads exchanged",
            "offsets|marks|type:conv",
            "swapped weights|weights|wrong argument|missing operation",
        ),
        Written("corners cut to integers early", "corners|whole|type:cast|type:floor", f"cast|{_OTHER}"),
        Written("centre for the corner", "low|type:sub|type:add|corners|type:concat", f"offset|{_OTHER}"),
        Written("area of large boxes", "area|areas|type:mul|type:reduce_prod", "overflow", is_precision=True),
        Written(
            "overlap of empty boxes",
            "overlap|union|type:add|type:real_div",
            "epsilon|underflow",
            is_precision=True,
        ),
    )

    def __init__(self, fault: str | None = None, site: int = 0) -> None:
        super().__init__(fault, site)
        self.stem, self.norm = nn.Conv2d(3, 16, 3, 4, 1), _with_statistics(nn.BatchNorm2d(16))
        self.deep = nn.ModuleList(nn.Conv2d(16, 16, 3, padding=1, groups=16) for _ in range(3))
        self.offsets, self.marks = nn.Conv2d(16, 4, 1), nn.Conv2d(16, 4, 1)
        self.classes = nn.Conv2d(16, 5, 1)
        with torch.no_grad():
            self.classes.bias[0] += 1
        rows, columns = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij")
        self.register_buffer("anchors", torch.stack([columns.flatten(), rows.flatten()], 1) * 4 + 2)

    def boxes(self, offsets: Tensor) -> Tensor:
        first, second = (0.2, 0.1) if self.has("variances exchanged") else (0.1, 0.2)
        centre = self.anchors + offsets[:, :, :2] * first * 8
        size = torch.exp(offsets[:, :, 2:] * second) * 8
        low = centre if self.has("centre for the corner") else centre - size / 2
        corners = torch.cat([low, low + size], 2)
        if self.has("corners cut to integers early"):
            corners = corners.int().float()
        return corners * 1.25

    def compare(self, corners: Tensor) -> Tensor:
        """Returns the overlap of each box with the first."""
        if self.has("area of large boxes"):
            corners = corners * 40
        elif self.has("overlap of empty boxes"):
            corners = corners * torch.tensor([0.0, 0.0, 1.0, 1.0]) * 1e-5
        low = torch.maximum(corners[:, :, :2], corners[:, :1, :2])
        high = torch.minimum(corners[:, :, 2:], corners[:, :1, 2:])
        common = (high - low).clamp(min=0)
        common = common[:, :, 0] * common[:, :, 1]
        sides = corners[:, :, 2:] - corners[:, :, :2]
        area = sides[:, :, 0] * sides[:, :, 1]
        union = area + area[:, :1] - common
        return common / (union + 1e-9)

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        x = F.relu(self.norm(self.stem(image)))
        first, second = self.offsets, self.marks
        if self.has("weights of two heads exchanged"):
            first, second = second, first
        offsets = first(F.relu(self.deep[0](x))).flatten(2).transpose(1, 2)
        marks = second(F.relu(self.deep[1](x))).flatten(2).transpose(1, 2)
        logits = self.classes(F.relu(self.deep[2](x))).flatten(2).transpose(1, 2)
        shares = (logits * 4).softmax(-1)
        classes = shares[:, :, :4] if self.has("background at the other end") else shares[:, :, 1:]
        score = classes.amax(2)
        corners = self.boxes(offsets * 4)
        best, chosen = torch.topk(score, 8, dim=1, largest=not self.has("lowest scores first"))
        if self.has("boxes counted from one"):
            chosen = (chosen + 1).clamp(max=63).long()
        kept = torch.gather(corners, 1, chosen[:, :, None].expand(-1, -1, 4))
        overlaps = self.compare(kept)
        return torch.cat([kept, best[:, :, None]], 2), overlaps, marks


VISION: dict[str, type[Faulty]] = {
    "last": Last,
    "gated": Gated,
    "denoiser": Denoiser,
    "pose": Pose,
    "finder": Finder,
}
