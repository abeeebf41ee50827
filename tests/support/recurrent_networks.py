"""Recurrent networks, scans and long convolutions in PyTorch, small; it needs torch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

__all__ = ["RECURRENT"]


class _Cells(nn.Module):
    """Layers of PyTorch's own recurrent cells, then a projection."""

    def __init__(self, cells: nn.Module, outputs: int) -> None:
        super().__init__()
        self.cells, self.leave = cells, nn.Linear(outputs, 10)

    def forward(self, x: Any) -> Any:
        return self.leave(self.cells(x)[0])


class _ReceptanceWeighted(nn.Module):
    """A block of RWKV: states of outer products that decay, then a gated layer (Peng et al., 2024)."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.taken, self.keys, self.values, self.gate, self.leave = (
            nn.Linear(width, width, False) for _ in range(5)
        )
        self.mix = nn.Parameter(torch.rand(3, width))
        self.decay, self.bonus = (nn.Parameter(torch.randn(heads, width // heads)) for _ in range(2))
        self.norm, self.group = nn.LayerNorm(width), nn.GroupNorm(heads, width)
        self.up, self.down = nn.Linear(width, 2 * width, False), nn.Linear(2 * width, width, False)

    def forward(self, x: Any) -> Any:
        batch, steps, width = x.shape
        y = self.norm(x)
        last = torch.cat((torch.zeros(batch, 1, width), y[:, :-1]), 1)
        mixed = (y * part + last * (1 - part) for part in self.mix)
        taken, keys, values = (
            layer(part).view(batch, steps, self.heads, self.size)
            for layer, part in zip((self.taken, self.keys, self.values), mixed, strict=True)
        )
        state, kept = torch.zeros(batch, self.heads, self.size, self.size), torch.exp(-torch.exp(self.decay))
        results = []
        for step in range(steps):
            added = keys[:, step, :, :, None] @ values[:, step, :, None, :]
            found = taken[:, step, :, None, :] @ (self.bonus[:, :, None] * added + state)
            results.append(found[:, :, 0])
            state = kept[:, :, None] * state + added
        y_out = self.group(torch.stack(results, 1).reshape(batch * steps, width)).view(batch, steps, width)
        x = x + self.leave(y_out * functional.silu(self.gate(y)))
        return x + self.down(torch.relu(self.up(self.norm(x))) ** 2)


class _Retention(nn.Module):
    """Retention in its parallel form (Sun et al., 2023)."""

    def __init__(self, width: int = 64, heads: int = 4, steps: int = 24) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.enter, self.leave = nn.Linear(width, 4 * width), nn.Linear(width, width)
        self.group = nn.GroupNorm(heads, width)
        rates, place = 1 - 2.0 ** (-5 - torch.arange(heads).float()), torch.arange(steps)
        apart = place[:, None] - place
        self.register_buffer("decay", rates[:, None, None] ** apart.clamp(min=0) * (apart >= 0))

    def forward(self, x: Any) -> Any:
        batch, steps, width = x.shape
        *parts, gate = self.enter(x).chunk(4, -1)
        q, k, v = (part.view(batch, steps, self.heads, self.size).transpose(1, 2) for part in parts)
        found = ((q @ k.transpose(-1, -2)) * self.decay) @ v
        found = self.group(found.transpose(1, 2).reshape(batch * steps, width)).view(batch, steps, width)
        return self.leave(found * functional.silu(gate))


class _MinimalGated(nn.Module):
    """minGRU: a scan in logarithms by cumulative sums (Feng et al., 2024)."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.gate, self.candidate, self.leave = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x: Any) -> Any:
        gate, candidate = self.gate(x), self.candidate(x)
        level = torch.where(
            candidate >= 0,
            torch.log(functional.relu(candidate) + 0.5),
            -functional.softplus(-candidate),
        )
        kept = torch.cumsum(-functional.softplus(gate), 1)
        added = torch.cumsum(torch.exp(level - functional.softplus(-gate) - kept), 1)
        return self.leave(torch.exp(kept) * added) + x


class _StateSpaceConvolution(nn.Module):
    """S4D as a convolution, whose kernel is computed from weights (Gu et al., 2022)."""

    def __init__(self, width: int = 32, states: int = 16, steps: int = 32) -> None:
        super().__init__()
        self.steps, self.enter = steps, nn.Linear(width, width)
        self.decay = nn.Parameter(torch.log(torch.arange(1, states + 1).float().repeat(width, 1)))
        self.pace, self.skip = nn.Parameter(torch.rand(width) * 0.1), nn.Parameter(torch.ones(width))
        self.taken, self.mix = nn.Parameter(torch.randn(width, states)), nn.Conv1d(width, 2 * width, 1)

    def forward(self, x: Any) -> Any:
        x = self.enter(x).transpose(1, 2)
        rate = -torch.exp(self.decay) * self.pace[:, None]
        kernel = (self.taken[..., None] * torch.exp(rate[..., None] * torch.arange(self.steps))).sum(1)
        padded = functional.pad(x, (self.steps - 1, 0))
        found = functional.conv1d(padded, kernel.flip(-1)[:, None], groups=x.shape[1])
        found = functional.gelu(found + x * self.skip[:, None])
        return functional.glu(self.mix(found), 1).transpose(1, 2)


class _StateSpaceDuality(nn.Module):
    """Mamba 2 as masked products of matrices (Dao and Gu, 2024)."""

    def __init__(self, width: int = 32, heads: int = 4, states: int = 8, steps: int = 16) -> None:
        super().__init__()
        inner = 2 * width
        self.sizes, self.heads, self.steps = (inner, inner + 2 * states, heads), heads, steps
        self.states, channels = states, inner + 2 * states
        self.enter, self.leave = nn.Linear(width, sum(self.sizes), False), nn.Linear(inner, width, False)
        self.mix = nn.Conv1d(channels, channels, 4, padding=3, groups=channels)
        self.decay, self.bias = nn.Parameter(torch.rand(heads)), nn.Parameter(torch.rand(heads))
        self.skip, self.norm = nn.Parameter(torch.ones(heads)), nn.LayerNorm(inner)
        self.register_buffer("later", torch.triu(torch.ones(steps, steps), 1) > 0)

    def forward(self, x: Any) -> Any:
        batch, steps, _ = x.shape
        gate, mixed, pace = self.enter(x).split(self.sizes, -1)
        mixed = functional.silu(self.mix(mixed.transpose(1, 2))[..., :steps]).transpose(1, 2)
        v, given, taken = mixed.split([self.sizes[0], self.states, self.states], -1)
        pace = functional.softplus(pace + self.bias)
        rate = torch.cumsum(-torch.exp(self.decay) * pace, 1).transpose(1, 2)
        kept = torch.exp((rate[..., :, None] - rate[..., None, :]).masked_fill(self.later, -1e4))
        v = v.view(batch, steps, self.heads, -1).transpose(1, 2)
        scores = (taken @ given.transpose(1, 2))[:, None] * kept
        found = scores @ (v * pace.transpose(1, 2)[..., None]) + v * self.skip[:, None, None]
        found = found.transpose(1, 2).reshape(batch, steps, -1)
        return self.leave(self.norm(found * functional.silu(gate)))


class _DeltaRule(nn.Module):
    """Linear attention whose states are corrected by the delta rule (Yang et al., 2024)."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.q, self.k, self.v, self.leave = (nn.Linear(width, width, False) for _ in range(4))
        self.pace = nn.Linear(width, 1)

    def forward(self, x: Any) -> Any:
        batch, steps, width = x.shape
        q, k, v = self.q(x), functional.normalize(self.k(x), dim=-1), self.v(x)
        pace, state, results = torch.sigmoid(self.pace(x)), torch.zeros(batch, width, width), []
        for step in range(steps):
            key = k[:, step]
            change = pace[:, step] * (v[:, step] - torch.einsum("bij,bj->bi", state, key))
            state = state + torch.einsum("bi,bj->bij", change, key)
            results.append(torch.einsum("bij,bj->bi", state, q[:, step]))
        return self.leave(torch.stack(results, 1))


class _LongConvolution(nn.Module):
    """Hyena: gated convolutions as long as the sequence, by kernels of a network (Poli et al., 2023)."""

    def __init__(self, width: int = 24, steps: int = 32) -> None:
        super().__init__()
        self.steps, self.enter, self.leave = steps, nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.short = nn.Conv1d(3 * width, 3 * width, 3, padding=2, groups=3 * width)
        self.kernel = nn.Sequential(nn.Linear(3, 16), nn.SiLU(), nn.Linear(16, width))
        time = torch.linspace(0, 1, steps)[:, None]
        self.register_buffer("time", torch.cat((time, torch.cos(6.28 * time), torch.sin(6.28 * time)), -1))

    def forward(self, x: Any) -> Any:
        gate, before, v = self.short(self.enter(x).transpose(1, 2))[..., : self.steps].chunk(3, 1)
        kernel = (self.kernel(self.time) * torch.exp(-3 * self.time[:, :1])).T
        padded = functional.pad(v * before, (self.steps - 1, 0))
        found = functional.conv1d(padded, kernel.flip(-1)[:, None], groups=v.shape[1])
        return self.leave((gate * found).transpose(1, 2))


#: How each network is made, and the shape of its input, by name.
RECURRENT: dict[str, tuple[Any, tuple[int, ...]]] = {
    "lstm": (lambda: _Cells(nn.LSTM(24, 32, batch_first=True), 32), (1, 12, 24)),
    "gru": (lambda: _Cells(nn.GRU(24, 32, 2, batch_first=True, bidirectional=True), 64), (1, 12, 24)),
    "rwkv": (_ReceptanceWeighted, (1, 10, 32)),
    "retention": (_Retention, (1, 24, 64)),
    "min_gru": (_MinimalGated, (1, 16, 48)),
    "s4d": (_StateSpaceConvolution, (1, 32, 32)),
    "mamba2": (_StateSpaceDuality, (1, 16, 32)),
    "delta_rule": (_DeltaRule, (1, 8, 32)),
    "hyena": (_LongConvolution, (1, 32, 24)),
}
