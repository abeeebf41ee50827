"""Damaged twins of a network: the same module but for one mistake of porting or conversion."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import nn

from benchmarks.faults.networks import Add, Attention, Join, Network, Prepare

__all__ = ["Twin", "permute_classes", "twins_of", "without_preprocessing"]

#: Twins of one network.
COUNT = 20


@dataclass(frozen=True)
class Twin:
    """A damaged network.

    Attributes:
        kind: What is wrong with it.
        causes: The causes that name it rightly.
        module: The module.
    """

    kind: str
    causes: frozenset[str]
    module: nn.Module


def without_preprocessing(module: nn.Module) -> nn.Module:
    """Returns a network for pictures that takes pixels as they are."""
    twin = copy.deepcopy(module)
    first = twin[0] if isinstance(twin, nn.Sequential) else twin.body
    (first if isinstance(first, nn.Sequential) else twin)[0] = nn.Identity()
    return twin


def permute_classes(module: nn.Module, seed: int) -> nn.Module:
    """Returns a classifier whose classes are in another order."""
    twin = copy.deepcopy(module)
    head = next(part for part in reversed(list(twin.modules())) if isinstance(part, nn.Linear))
    order = list(range(head.out_features))
    while any(place == at for at, place in enumerate(order)):
        random.Random(seed).shuffle(order)
        seed += 1
    with torch.no_grad():
        head.weight.copy_(head.weight[order].clone()), head.bias.copy_(head.bias[order].clone())
    return twin


_WEIGHTED = (nn.Linear, nn.Conv1d, nn.Conv2d)
_Damage = Callable[[list[nn.Module], random.Random], bool]


def _pick(parts: list[nn.Module], kind: type | tuple[type, ...], draw: random.Random) -> nn.Module | None:
    found = [part for part in parts if isinstance(part, kind)]
    return draw.choice(found) if found else None


def _other_weight(parts: list[nn.Module], draw: random.Random) -> bool:
    layer = _pick(parts, _WEIGHTED, draw)
    if layer is not None:
        layer.weight.copy_(
            layer.weight.flatten()[torch.randperm(layer.weight.numel())].reshape(layer.weight.shape)
        )
    return layer is not None


def _swapped_weights(parts: list[nn.Module], draw: random.Random) -> bool:
    layers = [part for part in parts if isinstance(part, _WEIGHTED)]
    pairs = [(a, b) for a in layers for b in layers if a is not b and a.weight.shape == b.weight.shape]
    if not pairs:
        return False
    first, second = draw.choice(pairs)
    first.weight, second.weight = second.weight, first.weight
    return True


def _transposed(parts: list[nn.Module], draw: random.Random) -> bool:
    square = [p for p in parts if isinstance(p, _WEIGHTED) and p.weight.shape[0] == p.weight.shape[1] > 1]
    layer = draw.choice(square) if square else None
    if layer is not None:
        layer.weight.copy_(layer.weight.transpose(0, 1).clone())
    return layer is not None


def _turned_kernel(parts: list[nn.Module], draw: random.Random) -> bool:
    convs = [p for p in parts if isinstance(p, nn.Conv2d) and p.kernel_size[0] > 1]
    layer = draw.choice(convs) if convs else None
    if layer is not None:
        layer.weight.copy_(layer.weight.transpose(2, 3).clone())
    return layer is not None


def _dropped_bias(parts: list[nn.Module], draw: random.Random) -> bool:
    layer = _pick(parts, _WEIGHTED, draw)
    if layer is not None:
        layer.bias += 1.0
    return layer is not None


def _coarse_weight(parts: list[nn.Module], draw: random.Random) -> bool:
    layer = _pick(parts, _WEIGHTED, draw)
    if layer is not None:
        step = layer.weight.abs().max() / 1.5
        layer.weight.copy_((layer.weight / step).round() * step)
    return layer is not None


def _other_statistics(parts: list[nn.Module], draw: random.Random) -> bool:
    norm = _pick(parts, (nn.BatchNorm1d, nn.BatchNorm2d), draw)
    if norm is not None:
        norm.running_mean.zero_(), norm.running_var.fill_(1)
    return norm is not None


def _set(kind: type | tuple[type, ...], name: str, value: object) -> _Damage:
    def damage(parts: list[nn.Module], draw: random.Random) -> bool:
        part = _pick(parts, kind, draw)
        if part is not None:
            setattr(part, name, value)
        return part is not None

    return damage


def _turned_colours(parts: list[nn.Module], draw: random.Random) -> bool:
    conv = next((part for part in parts if isinstance(part, nn.Conv2d) and part.in_channels == 3), None)
    if conv is not None:
        conv.weight.copy_(conv.weight.flip(1))
    return conv is not None


def _shifted_mean(parts: list[nn.Module], draw: random.Random) -> bool:
    first = _pick(parts, Prepare, draw)
    if first is not None:
        first.mean += 0.5
    return first is not None


_WEIGHTS = ("weights", "swapped weights", "layout", "compressed weights")
#: What is wrong, the causes that name it, and how it is done. Where no cause is right, that it is
#: not known is.
_KINDS: tuple[tuple[str, tuple[str, ...], _Damage], ...] = (
    ("other weight", _WEIGHTS, _other_weight),
    ("swapped weights", _WEIGHTS, _swapped_weights),
    ("transposed weight", _WEIGHTS, _transposed),
    ("turned kernel", _WEIGHTS, _turned_kernel),
    ("other bias", (*_WEIGHTS, "offset"), _dropped_bias),
    ("coarse weight", _WEIGHTS, _coarse_weight),
    ("other statistics", (*_WEIGHTS, "scale", "offset"), _other_statistics),
    ("form of GELU", ("setting",), _set(nn.GELU, "approximate", "tanh")),
    ("epsilon", ("setting", "constant", "epsilon"), _set((nn.LayerNorm, nn.GroupNorm), "eps", 0.1)),
    ("slope", ("setting", "constant"), _set(nn.LeakyReLU, "negative_slope", 0.3)),
    ("corners", ("setting",), _set(nn.Upsample, "align_corners", True)),
    ("counted padding", ("setting",), _set(nn.AvgPool2d, "count_include_pad", False)),
    ("axis of a softmax", ("setting",), _set(Attention, "axis", -2)),
    ("scale of scores", ("scale",), _set(Attention, "scale", 1.0)),
    ("turned colours", (*_WEIGHTS, "preprocessing"), _turned_colours),
    ("scale of pixels", ("preprocessing", "scale", "offset"), _set(Prepare, "scale", 1 / 127.5)),
    ("mean of pixels", ("preprocessing", "scale", "offset"), _shifted_mean),
    ("order of a join", ("setting", "layout", "swapped arguments"), _set(Join, "is_turned", True)),
    ("dropped residual", ("missing operation", "extra operation"), _set(Add, "is_kept", False)),
)


def twins_of(network: Network, module: nn.Module, seed: int) -> Iterator[Twin]:
    """Yields damaged twins: each kind that the network can have, then again at other places."""
    draw = random.Random(f"{network.name} {seed}")
    torch.manual_seed(seed)
    made, useless = 0, set[str]()
    while made < COUNT and len(useless) < len(_KINDS):
        for kind, causes, damage in _KINDS:
            twin = copy.deepcopy(module)
            with torch.no_grad():
                is_done = kind not in useless and damage(list(twin.modules()), draw)
            if not is_done:
                useless.add(kind)
            elif made < COUNT:
                made += 1
                yield Twin(kind, frozenset(causes), twin)
