"""Networks of sequences of further families, with the mistakes that are made when they are ported.

A change of the program can mend each. Two towers that are compared, a decoder with a cache, a tagger with
transitions, a front end of speech, an encoder of speech with relative positions, and a forecast that
restores what it normalized.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from benchmarks.faults.written import Faulty, Written

__all__ = ["SEQUENCES"]

_OTHER = "setting|constant|other operation|missing operation|extra operation|wrong argument|swapped arguments"


class Towers(Faulty):
    """A tower of patches with a token of its own and a causal tower of words, compared by their angles."""

    shape = (1, 20, 48)
    faults = (
        Written("class token at the end", "tokens|type:concat", f"layout|{_OTHER}"),
        Written(
            "position of the class token missing",
            "tokens|placed|type:add|type:concat",
            f"offset|weights|{_OTHER}",
        ),
        Written("exponent of the scale missing", "logits|type:mul|type:matmul|cosines", f"scale|{_OTHER}"),
        Written(
            "words not normalized",
            "words|cosines|type:slice_by_index|type:matmul|type:real_div|type:mul",
            f"scale|{_OTHER}",
        ),
        Written(
            "normalized over the words",
            "words|type:.*norm|type:reduce.*|type:real_div|length",
            f"scale|{_OTHER}",
        ),
        Written(
            "causal mask for the patches", "masked|scores|weights|type:add|type:softmax", f"offset|{_OTHER}"
        ),
        Written("square projection transposed", "seen|type:linear|type:matmul", f"layout|weights|{_OTHER}"),
        Written(
            "queries and keys of other heads",
            "q|k|type:reshape|type:transpose",
            f"layout|weights|{_OTHER}",
            sites=2,
        ),
        Written(
            "two masks added",
            "masked|weights|type:add|type:softmax|type:mul|scores",
            "overflow",
            is_precision=True,
        ),
        Written(
            "length of large features",
            "length|type:reduce.*|type:mul|type:.*norm|type:pow|type:square",
            "overflow",
            is_precision=True,
        ),
    )

    def __init__(self, fault: str | None = None, site: int = 0) -> None:
        super().__init__(fault, site)
        self.patch, self.word = nn.Linear(48, 32), nn.Linear(48, 32)
        self.token = nn.Parameter(torch.randn(1, 1, 32))
        self.places, self.orders = nn.Parameter(torch.randn(13, 32)), nn.Parameter(torch.randn(8, 32))
        self.norms = nn.ModuleList(nn.LayerNorm(32) for _ in range(4))
        self.qkv = nn.ModuleList(nn.Linear(32, 96) for _ in range(2))
        self.out = nn.ModuleList(nn.Linear(32, 32) for _ in range(2))
        self.project = nn.ModuleList(nn.Linear(32, 32, bias=False) for _ in range(2))
        self.scale = nn.Parameter(torch.tensor(1.9))
        with torch.no_grad():
            for layer in self.qkv:
                layer.weight *= 2

    def attend(self, x: Tensor, site: int, *, is_causal: bool) -> Tensor:
        q, k, v = self.qkv[site](self.norms[site](x)).chunk(3, -1)
        size = x.shape[1]
        if self.has("queries and keys of other heads", site):
            q, k = (a.reshape(1, size, 8, 4).permute(0, 3, 1, 2) for a in (q, k))
        else:
            q, k = (a.reshape(1, size, 4, 8).transpose(1, 2) for a in (q, k))
        v = v.reshape(1, size, 4, 8).transpose(1, 2)
        scores = q @ k.transpose(-2, -1) * 8**-0.5
        if is_causal:
            mask = torch.full((size, size), -5e4).triu(1)
            masked = scores + mask
            if self.has("two masks added"):
                masked = masked + torch.tensor([-5e4] * 3 + [0.0] * (size - 3))
        else:
            masked = scores
        weights = masked.softmax(-1)
        mixed = (weights @ v).transpose(1, 2).reshape(1, size, 32)
        return x + self.out[site](mixed)

    def look(self, patches: Tensor) -> Tensor:
        cut = self.patch(patches)
        if self.has("position of the class token missing"):
            tokens = torch.cat([self.token, cut + self.places[1:]], 1)
        else:
            parts = [self.token, cut]
            joined = torch.cat(parts[::-1] if self.has("class token at the end") else parts, 1)
            tokens = joined + self.places
        x = self.attend(tokens, 0, is_causal=self.has("causal mask for the patches"))
        first = self.norms[2](x[:, 0])
        weight = self.project[0].weight
        return F.linear(first, weight.t() if self.has("square projection transposed") else weight)

    def forward(self, x: Tensor) -> Tensor:
        seen = self.look(x[:, :12])
        words = self.attend(self.word(x[:, 12:]) + self.orders, 1, is_causal=True)
        words = self.project[1](self.norms[3](words))
        if self.has("length of large features"):
            words = words * 90
        if not self.has("words not normalized"):
            axis = 1 if self.has("normalized over the words") else -1
            length = words.pow(2).sum(axis, keepdim=True).sqrt()
            words = words / length
        seen = seen / seen.norm(dim=-1, keepdim=True)
        cosines = seen @ words[0].t()
        factor = self.scale if self.has("exponent of the scale missing") else self.scale.exp()
        return cosines * factor


class Cached(Faulty):
    """A step of a decoder: four new tokens attend to six that are cached, and to themselves."""

    shape = (1, 4, 32)
    faults = (
        Written("cache behind the new keys", "keys|type:concat", f"layout|{_OTHER}"),
        Written("positions from zero", "q|k|turned|type:mul|type:add", f"weights|layout|{_OTHER}"),
        Written("cosine and sine exchanged", "q|k|turned|type:mul|type:add", f"weights|layout|{_OTHER}"),
        Written("mask without the cache", "masked|type:add|type:softmax", f"offset|weights|{_OTHER}"),
        Written("cached keys as values", "values|type:concat", f"swapped weights|weights|layout|{_OTHER}"),
        Written("soft cap missing", "capped|logits|type:tanh|type:mul|type:linear", f"scale|{_OTHER}"),
        Written(
            "gain without its one", "normed|type:mul|type:linear", f"weights|scale|offset|{_OTHER}", sites=2
        ),
        Written("last token but one", "last|type:slice_by_index", "setting|wrong argument|other operation"),
        Written("exponential without the maximum", "raised|type:exp", "overflow", is_precision=True),
        Written(
            "padding row without a key",
            "type:softmax|type:real_div|type:add|weights|share|masked|type:mul",
            "overflow|epsilon|underflow",
            is_precision=True,
        ),
    )

    def __init__(self, fault: str | None = None, site: int = 0) -> None:
        super().__init__(fault, site)
        self.gains = nn.ParameterList(nn.Parameter(torch.randn(32) * 0.4) for _ in range(2))
        self.qkv, self.out = nn.Linear(32, 96, bias=False), nn.Linear(32, 32, bias=False)
        self.head = nn.Linear(32, 50, bias=False)
        self.register_buffer("old_keys", torch.randn(1, 4, 6, 8))
        self.register_buffer("old_values", torch.randn(1, 4, 6, 8))
        with torch.no_grad():
            self.qkv.weight *= 3
            self.head.weight *= 8

    def normalize(self, x: Tensor, site: int) -> Tensor:
        normed = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        gain = self.gains[site]
        return normed * (gain if self.has("gain without its one", site) else 1 + gain)

    def turn(self, x: Tensor) -> Tensor:
        begin = 0 if self.has("positions from zero") else 6
        angles = torch.arange(begin, begin + 4)[:, None] * 10.0 ** (-torch.arange(4) / 2)
        angles = torch.cat([angles, angles], -1)
        cosine, sine = angles.cos(), angles.sin()
        if self.has("cosine and sine exchanged"):
            cosine, sine = sine, cosine
        halves = torch.cat([-x[..., 4:], x[..., :4]], -1)
        return x * cosine + halves * sine

    def weigh(self, scores: Tensor) -> Tensor:
        begin = 1 if self.has("mask without the cache") else 7
        masked = scores + torch.full((4, 10), -3e4).triu(begin)
        if self.has("exponential without the maximum"):
            raised = torch.exp(scores + 6)
            return raised / raised.sum(-1, keepdim=True)
        if self.has("padding row without a key"):
            share = torch.exp(scores - 22 - 3 * scores.abs())
            return share / (share.sum(-1, keepdim=True) + 1e-12)
        return masked.softmax(-1)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.normalize(x, 0)).reshape(1, 4, 3, 4, 8).permute(2, 0, 3, 1, 4)
        q, k = self.turn(q), self.turn(k)
        old_values = self.old_keys if self.has("cached keys as values") else self.old_values
        parts = [self.old_keys, k]
        keys = torch.cat(parts[::-1] if self.has("cache behind the new keys") else parts, 2)
        values = torch.cat([old_values, v], 2)
        scores = q @ keys.transpose(-2, -1) * 8**-0.5
        mixed = (self.weigh(scores) @ values).transpose(1, 2).reshape(1, 4, 32)
        x = x + self.out(mixed)
        place = 2 if self.has("last token but one") else 3
        last = self.normalize(x, 1)[:, place]
        logits = self.head(last)
        return logits if self.has("soft cap missing") else torch.tanh(logits / 5) * 5


class Tagger(Faulty):
    """A gated recurrent network in both directions, tags by transitions."""

    shape = (1, 12, 16)
    faults = (
        Written(
            "hidden bias added to the input's",
            "type:gru|type:while_loop|type:add|type:mul|type:linear|both",
            f"weights|swapped weights|offset|{_OTHER}",
        ),
        Written(
            "gates in the order of the other framework",
            "type:gru|type:while_loop|both|type:linear",
            "weights|swapped weights|layout",
        ),
        Written(
            "last step for both directions",
            "summary|ends|type:concat|type:slice_by_index|joined",
            f"layout|{_OTHER}",
        ),
        Written("transitions transposed", "paths|type:add|type:expand_dims", f"layout|weights|{_OTHER}"),
        Written(
            "start scores missing", "alpha|type:add|type:expand_dims|paths|emissions", f"offset|{_OTHER}"
        ),
        Written(
            "sum of exponentials by hand",
            "raised|type:exp|total|type:reduce_sum",
            "overflow",
            is_precision=True,
        ),
    )

    def __init__(self, fault: str | None = None, site: int = 0) -> None:
        super().__init__(fault, site)
        self.cell = nn.GRU(16, 12, batch_first=True, bidirectional=True)
        self.tags, self.whole = nn.Linear(24, 5), nn.Linear(24, 5)
        self.start, self.transitions = nn.Parameter(torch.randn(5)), nn.Parameter(torch.randn(5, 5))
        with torch.no_grad():
            for weight in self.cell.parameters():
                weight *= 2
            if fault == "hidden bias added to the input's":
                for end in ("", "_reverse"):
                    hidden = getattr(self.cell, f"bias_hh_l0{end}")
                    getattr(self.cell, f"bias_ih_l0{end}")[24:] += hidden[24:]
                    hidden[24:] = 0
            elif fault == "gates in the order of the other framework":
                for weight in self.cell.parameters():
                    weight.copy_(weight.view(3, 12, -1)[[1, 0, 2]].reshape(weight.shape))

    def forward(self, x: Tensor) -> Tensor:
        both, _ = self.cell(x)
        emissions = self.tags(both)
        place = 11 if self.has("last step for both directions") else 0
        joined = torch.cat([both[:, -1, :12], both[:, place, 12:]], -1)
        summary = self.whole(joined)
        moves = self.transitions.t() if self.has("transitions transposed") else self.transitions
        alpha = emissions[:, 0]
        if not self.has("start scores missing"):
            alpha = alpha + self.start
        for step in range(1, 5):
            paths = alpha[:, :, None] + moves
            if self.has("sum of exponentials by hand"):
                raised = torch.exp(paths + step)
                total = raised.sum(1)
                alpha = torch.log(total) + emissions[:, step] + 3
            else:
                alpha = paths.logsumexp(1) + emissions[:, step]
        return torch.cat([alpha, summary], -1)


class Front(Faulty):
    """The front end of a recogniser of speech: frames, powers, bands, decibels, normalized over time."""

    shape = (1, 1, 800)
    faults = (
        Written("emphasis added", "sharp|type:sub|type:add|type:mul", f"sign|{_OTHER}"),
        Written(
            "bands without their width", "bands|type:matmul|type:linear|type:conv", "weights|scale|constant"
        ),
        Written("decibels of amplitudes", "decibels|type:mul|type:log", f"scale|{_OTHER}"),
        Written("floor below the loudest missing", "floored|decibels|level|type:maximum|type:sub", _OTHER),
        Written("normalized over the bands", "centred|level|type:reduce_mean|type:sub", "setting"),
        Written("frames with another step", "imaginary|type:conv", f"layout|{_OTHER}"),
        Written("imaginary part negated twice", "powers|type:sub|type:add|type:mul", f"sign|{_OTHER}"),
        Written(
            "powers of integers",
            "powers|type:mul|type:pow|type:square|type:add",
            "overflow",
            is_precision=True,
        ),
        Written(
            "floor below fp16",
            "decibels|bands|type:clip|type:log|type:maximum|type:add|quiet|type:mul",
            "underflow|epsilon",
            is_precision=True,
        ),
    )

    def __init__(self, fault: str | None = None, site: int = 0) -> None:
        super().__init__(fault, site)
        steps, bins = torch.arange(64.0), torch.arange(33.0)
        turns = bins[:, None] * steps * (2 * math.pi / 64)
        window = torch.hann_window(64)
        self.register_buffer("cosines", (turns.cos() * window)[:, None])
        self.register_buffer("sines", (turns.sin() * window)[:, None])
        peaks = torch.linspace(1, 32, 10)[:, None]
        widths = torch.linspace(1.5, 5, 10)[:, None]
        bands = (1 - (bins - peaks).abs() / widths).clamp(min=0)
        self.register_buffer("bands", bands if fault == "bands without their width" else bands / widths)
        self.head = nn.Conv1d(10, 6, 3, padding=1)

    def forward(self, sound: Tensor) -> Tensor:
        if self.has("powers of integers"):
            sound = sound * 200
        elif self.has("floor below fp16"):
            sound = sound * 3e-5
        earlier = sound[:, :, :-1] * 0.97
        now = sound[:, :, 1:]
        sharp = now + earlier if self.has("emphasis added") else now - earlier
        step = 30 if self.has("frames with another step") else 32
        real = F.conv1d(sharp, self.cosines, stride=32)[:, :, :22]
        imaginary = F.conv1d(sharp, self.sines, stride=step)[:, :, :22]
        if self.has("imaginary part negated twice"):
            powers = (real * real - imaginary * imaginary).abs()
        else:
            powers = real * real + imaginary * imaginary
        quiet = self.bands @ powers
        factor = 20 if self.has("decibels of amplitudes") else 10
        decibels = torch.log10(quiet.clamp(min=1e-10)) * factor
        floored = decibels
        if not self.has("floor below the loudest missing"):
            floored = torch.maximum(decibels, decibels.amax((1, 2), keepdim=True) - 15)
        level = floored.mean(1 if self.has("normalized over the bands") else 2, keepdim=True)
        centred = (floored - level) * 0.1
        return self.head(centred)


class Relative(Faulty):
    """An encoder of speech: reduced frames, half steps of feed-forward layers, relative positions."""

    shape = (1, 1, 24, 16)
    faults = (
        Written(
            "frames flattened with channels last",
            "frames|flat|type:reshape|type:transpose|type:linear",
            f"layout|weights|{_OTHER}",
        ),
        Written(
            "half step missing", "halved|x|type:mul|type:linear|type:add", f"scale|weights|{_OTHER}", sites=2
        ),
        Written(
            "shift by one too many", "shifted|type:reshape|type:slice_by_index|type:pad", f"layout|{_OTHER}"
        ),
        Written(
            "biases of content and position exchanged", "content|position|type:add|q", f"weights|{_OTHER}"
        ),
        Written(
            "positions ascending", "position|p|type:matmul|type:linear|shifted", f"layout|weights|{_OTHER}"
        ),
        Written("scale of the position scores missing", "scores|scaled|type:add|type:mul", f"scale|{_OTHER}"),
    )

    def __init__(self, fault: str | None = None, site: int = 0) -> None:
        super().__init__(fault, site)
        self.first, self.second = nn.Conv2d(1, 6, 3, 2, 1), nn.Conv2d(6, 6, 3, 2, 1)
        self.into = nn.Linear(24, 24)
        self.ups = nn.ModuleList(nn.Linear(24, 48) for _ in range(2))
        self.downs = nn.ModuleList(nn.Linear(48, 24) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(24) for _ in range(4))
        self.q, self.k, self.v = (nn.Linear(24, 24) for _ in range(3))
        self.p, self.out = nn.Linear(24, 24, bias=False), nn.Linear(24, 24)
        self.content, self.position = nn.Parameter(torch.randn(3, 1, 8)), nn.Parameter(torch.randn(3, 1, 8))
        self.head = nn.Linear(24, 9)

    def feed(self, x: Tensor, site: int) -> Tensor:
        opened = self.downs[site](F.silu(self.ups[site](self.norms[site](x))))
        halved = opened if self.has("half step missing", site) else opened * 0.5
        return x + halved

    def attend(self, x: Tensor) -> Tensor:
        size = x.shape[1]
        even = self.norms[2](x)
        q, k, v = (layer(even).view(1, size, 3, 8).transpose(1, 2) for layer in (self.q, self.k, self.v))
        places = torch.arange(size - 1, -size, -1.0)
        if self.has("positions ascending"):
            places = places.flip(0)
        angles = places[:, None] * torch.exp(torch.arange(12) * -0.5)
        p = self.p(torch.cat([angles.sin(), angles.cos()], -1)).view(1, 2 * size - 1, 3, 8).transpose(1, 2)
        first, second = self.content, self.position
        if self.has("biases of content and position exchanged"):
            first, second = second, first
        content = (q + first) @ k.transpose(-2, -1)
        position = (q + second) @ p.transpose(-2, -1)
        rows = F.pad(position, (1, 0)).reshape(1, 3, 2 * size, size)
        begin = 2 if self.has("shift by one too many") else 1
        rows = rows[:, :, begin : begin + 2 * size - 2]
        shifted = rows.reshape(1, 3, size, 2 * size - 2)[..., :size]
        if self.has("scale of the position scores missing"):
            scores = content * 8**-0.5 + shifted
        else:
            scores = (content + shifted) * 8**-0.5
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(1, size, 24)
        return x + self.out(mixed)

    def forward(self, image: Tensor) -> Tensor:
        low = F.relu(self.second(F.relu(self.first(image))))
        if self.has("frames flattened with channels last"):
            frames = low.permute(0, 2, 3, 1)
        else:
            frames = low.permute(0, 2, 1, 3)
        flat = frames.reshape(1, 6, 24)
        x = self.feed(self.into(flat), 0)
        x = self.attend(x)
        x = self.feed(x, 1)
        return self.head(self.norms[3](x))


class Forecast(Faulty):
    """A forecast: normalized series, trend and season apart, patches, and the level restored at the end."""

    shape = (1, 6, 48)
    faults = (
        Written("level not restored", "restored|type:add|type:mul|ahead", f"offset|{_OTHER}"),
        Written(
            "trend and season exchanged",
            "season|trend|patches|type:reshape|type:linear|type:conv",
            f"swapped weights|weights|{_OTHER}",
        ),
        Written(
            "ends of the average by zeros",
            "padded|trend|type:pad|type:avg_pool|type:concat",
            f"weights|{_OTHER}",
        ),
        Written(
            "patches across series", "patches|type:reshape|type:transpose|type:linear", f"layout|{_OTHER}"
        ),
        Written("deviation not taken back", "restored|ahead|type:mul|type:add", f"scale|{_OTHER}"),
        Written(
            "series of a large level",
            "centred|level|type:sub|type:reduce_mean|type:add|type:cast|x|given",
            "cancellation|integers|accumulation",
            is_precision=True,
        ),
        Written(
            "still series",
            "spread|scaled|type:add|type:sqrt|type:real_div|type:rsqrt|type:mul|type:pow|type:square",
            "epsilon|underflow",
            is_precision=True,
        ),
    )

    def __init__(self, fault: str | None = None, site: int = 0) -> None:
        super().__init__(fault, site)
        self.into, self.mix = nn.Linear(8, 16), nn.Linear(96, 12)
        self.follow = nn.Linear(48, 12)
        self.step = nn.Parameter(torch.rand(1, 6, 1) + 0.5)

    def forward(self, given: Tensor) -> Tensor:
        x = given * self.step + 2
        if self.has("series of a large level"):
            x = given * 0.02 + 700
        elif self.has("still series"):
            x = given * 1e-5
        level = x.mean(2, keepdim=True)
        centred = x - level
        spread = torch.sqrt(centred.pow(2).mean(2, keepdim=True) + 1e-12)
        scaled = centred / spread
        if self.has("ends of the average by zeros"):
            padded = F.pad(scaled, (3, 3))
        else:
            padded = F.pad(scaled, (3, 3), mode="replicate")
        trend = F.avg_pool1d(padded, 7, 1)
        season = scaled - trend
        if self.has("trend and season exchanged"):
            trend, season = season, trend
        if self.has("patches across series"):
            patches = season.reshape(1, 6, 6, 8).transpose(1, 2)
        else:
            patches = season.reshape(1, 6, 6, 8)
        inner = F.gelu(self.into(patches)).reshape(1, 6, 96)
        ahead = self.mix(inner) + self.follow(trend)
        if self.has("level not restored"):
            restored = ahead * spread
        elif self.has("series of a large level"):
            restored = ahead
        elif self.has("deviation not taken back"):
            restored = ahead + level
        else:
            restored = ahead * spread + level
        return restored


SEQUENCES: dict[str, type[Faulty]] = {
    "towers": Towers,
    "cached": Cached,
    "tagger": Tagger,
    "front": Front,
    "relative": Relative,
    "forecast": Forecast,
}
