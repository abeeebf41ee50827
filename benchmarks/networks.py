"""The networks that benchmarks and the long suite use, with random weights, and their conversion to Core ML.

Weights are drawn so that every branch of a network counts: convolution and linear weights as timm draws them,
scales of normalisations and of residual branches between 0.5 and 1.5, and running statistics taken from one
pass over random images, which keeps the activations' size from layer to layer.
"""

from __future__ import annotations

import sys
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

__all__ = ["DECODER_STEP", "NETWORKS", "Network", "convert_network"]


_VOCABULARY = 1000


@dataclass(frozen=True, slots=True)
class Network:
    """A PyTorch network and the inputs that it takes.

    Attributes:
        name: Its name in tables and test ids.
        make: Builds the module, in evaluation mode, with seeded weights.
        inputs: Shape of each input by name.
        limits: What the values of each integer input stay below; inputs that are not named are float32.
        script: Convert with `torch.jit.script`, for control flow that depends on data.
        states: Shape of each buffer that a prediction updates.
    """

    name: str
    make: Callable[[], nn.Module]
    inputs: dict[str, tuple[int, ...]]
    limits: Mapping[str, int] = field(default_factory=dict)
    script: bool = False
    states: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def draw(self, seed: int = 0) -> dict[str, npt.NDArray[Any]]:
        """Random values for every input: standard normal float32, or int32 below the limit."""
        random = np.random.default_rng(seed)
        return {
            name: random.integers(0, self.limits[name], shape, dtype=np.int32)
            if name in self.limits
            else random.standard_normal(shape, dtype=np.float32)
            for name, shape in self.inputs.items()
        }

    def graph(self, module: nn.Module) -> torch.jit.ScriptModule:
        """The TorchScript form that converters read."""
        examples = tuple(torch.from_numpy(value) for value in self.draw().values())
        with torch.no_grad(), _quiet():
            make = torch.jit.script if self.script else partial(torch.jit.trace, example_inputs=examples)
            graph: torch.jit.ScriptModule = make(module)
        return graph


def convert_network(
    network: Network, graph: torch.jit.ScriptModule, path: Path, *, fp16: bool, as_layers: bool = False
) -> None:
    """Converts a network with coremltools and saves it. Its outputs are named `output_0`, `output_1`, ….

    Args:
        network: The network.
        graph: Its TorchScript form.
        path: A `.mlpackage`; a `.mlmodel` if `as_layers`.
        fp16: Whether the program computes in fp16.
        as_layers: Makes a neural network of it, in fp32, instead of an ML Program.
    """
    with _quiet():
        import coremltools as ct

        inputs = [
            ct.TensorType(name=name, shape=shape, dtype=np.int32 if name in network.limits else np.float32)
            for name, shape in network.inputs.items()
        ]
        with torch.no_grad():
            results = graph(*(torch.from_numpy(value) for value in network.draw().values()))
        count = len(results) if isinstance(results, tuple) else 1
        precision = ct.precision.FLOAT16 if fp16 else ct.precision.FLOAT32
        kind: dict[str, Any] = {
            "convert_to": "mlprogram",
            "compute_precision": precision,
            "minimum_deployment_target": ct.target.iOS18 if network.states else ct.target.iOS17,
        }
        if network.states:
            kind["states"] = [
                ct.StateType(ct.TensorType(shape=shape, dtype=np.float16), name=name)
                for name, shape in network.states.items()
            ]
        if as_layers:
            kind = {"convert_to": "neuralnetwork", "minimum_deployment_target": ct.target.iOS14}
        dtype = None if as_layers else np.float32
        outputs = [ct.TensorType(name=f"output_{index}", dtype=dtype) for index in range(count)]
        model = ct.convert(graph, inputs=inputs, outputs=outputs, skip_model_load=True, **kind)
        model.save(str(path))


@contextmanager
def _quiet() -> Iterator[None]:
    """Hides the warnings of PyTorch, timm and coremltools, which concern their own code."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _timm(name: str, size: int) -> Callable[[], nn.Module]:
    """A constructor of one of timm's architectures."""

    def make() -> nn.Module:
        # timm imports torchvision, whose compiled operators are absent beside a CPU build of torch; only the
        # module that describes them to torch fails without them, and nothing here uses them.
        sys.modules.setdefault(
            "torchvision._meta_registrations", types.ModuleType("torchvision._meta_registrations")
        )
        with _quiet():
            import timm

            torch.manual_seed(0)
            return _settle(timm.create_model(name, pretrained=False), torch.randn(4, 3, size, size))

    return make


def _settle(module: nn.Module, images: torch.Tensor) -> nn.Module:
    """Gives normalisations and residual scales weights that matter; see the module's docstring."""
    generator = torch.Generator().manual_seed(1)
    norms = [layer for layer in module.modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)]
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if name.endswith("gamma") or (parameter.dim() == 1 and name.endswith("weight")):
                parameter.copy_(torch.rand(parameter.shape, generator=generator) + 0.5)
        module.eval()
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None
            norm.train()
        module(images)
    return module.eval()


class _Attention(nn.Module):
    """Multi-head self-attention, spelled out as the Hugging Face encoders do."""

    def __init__(self, width: int, heads: int, *, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        batch, length, width = x.shape

        def split(y: torch.Tensor) -> torch.Tensor:
            return y.view(batch, length, self.heads, width // self.heads).transpose(1, 2)

        query, key, value = split(self.query(x)), split(self.key(x)), split(self.value(x))
        scores = query / (width // self.heads) ** 0.5 @ key.transpose(2, 3)
        if self.causal:
            later = torch.triu(torch.full((length, length), -1e4), diagonal=1)
            scores = scores + later
        if mask is not None:
            scores = scores.masked_fill((mask == 0).view(batch, 1, 1, length).expand_as(scores), -1e4)
        context = torch.softmax(scores, dim=-1) @ value
        y: torch.Tensor = self.out(context.transpose(1, 2).reshape(batch, length, width))
        return y


class _Block(nn.Module):
    """An encoder block, normalised after (BERT) or before (CLIP) each half."""

    def __init__(self, width: int, heads: int, *, norm_first: bool, causal: bool) -> None:
        super().__init__()
        self.norm_first = norm_first
        self.attention = _Attention(width, heads, causal=causal)
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        if self.norm_first:
            x = x + self.attention(self.first_norm(x), mask)
            x = x + self.mlp(self.second_norm(x))
        else:
            x = self.first_norm(x + self.attention(x, mask))
            x = self.second_norm(x + self.mlp(x))
        return x


class _MaskedEncoder(nn.Module):
    """A text encoder of DistilBERT's shape: tokens and their mask in, one vector a token out."""

    def __init__(self, width: int = 768, heads: int = 12, layers: int = 6, length: int = 128) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.tokens, self.positions = nn.Embedding(_VOCABULARY, width), nn.Embedding(length, width)
        self.norm = nn.LayerNorm(width)
        self.blocks = nn.ModuleList(
            _Block(width, heads, norm_first=False, causal=False) for _ in range(layers)
        )

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1]).unsqueeze(0)
        x: torch.Tensor = self.norm(self.tokens(tokens) + self.positions(places))
        for block in self.blocks:
            x = block(x, mask)
        return x


class _ClipText(nn.Module):
    """A text tower of CLIP's shape: causal, pooled where the largest token stands, normalised."""

    def __init__(self, width: int = 512, heads: int = 8, layers: int = 4, length: int = 77) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.tokens = nn.Embedding(_VOCABULARY, width)
        self.positions = nn.Parameter(torch.randn(length, width) * 0.1)
        self.blocks = nn.ModuleList(_Block(width, heads, norm_first=True, causal=True) for _ in range(layers))
        self.norm, self.projection = nn.LayerNorm(width), nn.Linear(width, width, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.positions
        for block in self.blocks:
            x = block(x, None)
        x = self.norm(x)
        x = self.projection(x[torch.arange(x.shape[0]), tokens.argmax(dim=-1)])
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        normalised: torch.Tensor = x / length
        return normalised


class _UNet(nn.Module):
    """A UNet of three levels, with group norms and SiLU as diffusion models have them."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        torch.manual_seed(0)

        def block(channels: int, out: int) -> nn.Module:
            pair = [(channels, out), (out, out)]
            layers = [(nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(8, b), nn.SiLU()) for a, b in pair]
            return nn.Sequential(*(layer for group in layers for layer in group))

        self.down = nn.ModuleList([block(3, width), block(width, 2 * width), block(2 * width, 4 * width)])
        self.smaller = nn.MaxPool2d(2)
        self.larger = nn.ModuleList(
            nn.ConvTranspose2d(2 * out, out, 2, stride=2) for out in (2 * width, width)
        )
        self.up = nn.ModuleList([block(4 * width, 2 * width), block(2 * width, width)])
        self.head = nn.Conv2d(width, 3, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x, skipped = image, []
        for block in self.down:
            x = block(x if not skipped else self.smaller(x))
            skipped.append(x)
        for larger, block, skip in zip(self.larger, self.up, skipped[-2::-1], strict=True):
            x = block(torch.cat([larger(x), skip], dim=1))
        y: torch.Tensor = self.head(x)
        return y


class _Decoder(nn.Module):
    """One step of a Llama-like decoder whose caches are states: rotary embedding, RMS norms, gated MLPs."""

    def __init__(self, width: int = 512, heads: int = 8, layers: int = 4, context: int = 256) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.heads, self.size, self.layers = heads, width // heads, layers

        def linear(*shape: int) -> nn.Linear:
            return nn.Linear(*shape, bias=False)

        self.tokens = nn.Embedding(_VOCABULARY, width)
        self.norms = nn.ModuleList(nn.RMSNorm(width, eps=1e-5) for _ in range(2 * layers + 1))
        self.qkv = nn.ModuleList(linear(width, 3 * width) for _ in range(layers))
        self.out = nn.ModuleList(linear(width, width) for _ in range(layers))
        self.gate = nn.ModuleList(linear(width, 3 * width) for _ in range(layers))
        self.rise = nn.ModuleList(linear(width, 3 * width) for _ in range(layers))
        self.fall = nn.ModuleList(linear(3 * width, width) for _ in range(layers))
        self.head = linear(width, _VOCABULARY)
        rates = 1e4 ** (-torch.arange(0, self.size, 2) / self.size)
        angles = torch.outer(torch.arange(context), rates).repeat(1, 2)
        self.register_buffer("cosines", angles.cos(), persistent=False)
        self.register_buffer("sines", angles.sin(), persistent=False)
        for name in self.caches(layers):
            self.register_buffer(name, torch.zeros(heads, context, self.size))

    @staticmethod
    def caches(layers: int = 4) -> list[str]:
        """Names of the buffers that a step updates."""
        return [f"{part}_{layer}" for layer in range(layers) for part in ("keys", "values")]

    def forward(self, token: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        x, places = self.tokens(token), torch.arange(len(self.cosines))
        cosine, sine = (table.index_select(0, position) for table in (self.cosines, self.sines))
        mask = torch.zeros(len(self.cosines)).masked_fill(places > position, -1e4)
        # coremltools loses writes to a place that is computed, without a word.
        is_here = (places == position).unsqueeze(1)

        def turn(y: torch.Tensor) -> torch.Tensor:
            first, second = y.chunk(2, dim=-1)
            return y * cosine + torch.cat([-second, first], dim=-1) * sine

        for layer in range(self.layers):
            parts = self.qkv[layer](self.norms[2 * layer](x)).view(1, 3, self.heads, self.size)
            query, key, value = (parts[:, index].transpose(0, 1) for index in range(3))
            keys, values = getattr(self, f"keys_{layer}"), getattr(self, f"values_{layer}")
            keys[:] = torch.where(is_here, turn(key), keys)
            values[:] = torch.where(is_here, value, values)
            scores = turn(query) @ keys.transpose(1, 2) / self.size**0.5 + mask
            context = torch.softmax(scores, dim=-1) @ values
            x = x + self.out[layer](context.transpose(0, 1).reshape(1, -1))
            y = self.norms[2 * layer + 1](x)
            x = x + self.fall[layer](nn.functional.silu(self.gate[layer](y)) * self.rise[layer](y))
        logits: torch.Tensor = self.head(self.norms[-1](x))
        return logits


class _Recurrent(nn.Module):
    """Two bidirectional LSTM layers, a GRU, and a classifier of each step."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.lstm = nn.LSTM(32, 48, num_layers=2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(96, 40, batch_first=True)
        self.classify = nn.Linear(40, 10)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y, (hidden, _) = self.lstm(x)
        z, _ = self.gru(y)
        return self.classify(z), hidden


class _Loop(nn.Module):
    """Applies one layer while the sum of the result stays below a bound, with a choice in each round."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while bool(x.sum() < 40.0):
            step = torch.tanh(self.layer(x))
            if bool(step.sum() > 0.0):
                x = x + step.abs() * 0.5
            else:
                x = x + step.abs() * 1.5
        return x


def _image(size: int) -> dict[str, tuple[int, ...]]:
    return {"image": (1, 3, size, size)}


#: Every network.
NETWORKS: tuple[Network, ...] = (
    Network("mobilenet_v2", _timm("mobilenetv2_100", 224), _image(224)),
    Network("mobilenet_v3", _timm("mobilenetv3_large_100", 224), _image(224)),
    Network("resnet50", _timm("resnet50", 224), _image(224)),
    Network("efficientnet_b0", _timm("efficientnet_b0", 224), _image(224)),
    Network("vit_s", _timm("vit_small_patch16_224", 224), _image(224)),
    Network(
        "distilbert",
        lambda: _MaskedEncoder().eval(),
        {"tokens": (1, 128), "mask": (1, 128)},
        limits={"tokens": _VOCABULARY, "mask": 2},
    ),
    Network("fastvit_t8", _timm("fastvit_t8", 256), _image(256)),
    Network("mobileclip_image", _timm("fastvit_mci0", 256), _image(256)),
    Network("mobileclip_text", lambda: _ClipText().eval(), {"tokens": (1, 77)}, {"tokens": _VOCABULARY}),
    Network("recurrent", lambda: _Recurrent().eval(), {"x": (2, 20, 32)}),
    Network("unet", lambda: _UNet().eval(), _image(128)),
    Network("while_loop", lambda: _Loop().eval(), {"x": (1, 16)}, script=True),
)

#: A network whose buffers a prediction updates, so that two predictions with the same inputs differ.
DECODER_STEP = Network(
    "decoder_step",
    lambda: _Decoder().eval(),
    {"token": (1,), "position": (1,)},
    limits={"token": _VOCABULARY, "position": 256},
    states=dict.fromkeys(_Decoder.caches(), (8, 256, 64)),
)
