"""Networks of torchvision, timm and transformers, converted to Core AI and, where it can, to Core ML.

Each is read like coreai-core reads it, predicts like PyTorch, and has its work paired with that of Core ML.
"""

from __future__ import annotations

import re
import sys
import types
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coremlscope import api
from coremlscope.describe.comparison.work import pair_work
from coremlscope.formats.aimodel.reader import read_aimodel
from coremlscope.measure.coreai.values import record_values
from coremlscope.model.ir import Program

torch = pytest.importorskip("torch", exc_type=ImportError)
coreai_torch = pytest.importorskip("coreai_torch", exc_type=ImportError)

from torch import nn  # noqa: E402

from coremlscope.studies.conversion.worker import _to_core_ml  # noqa: E402
from tests.support.core_ai_conversion import TOLERANCE, check_walk  # noqa: E402
from tests.support.recurrent_networks import RECURRENT  # noqa: E402

# torchvision's compiled part does not load with PyTorch's CPU build.
sys.modules.setdefault("torchvision._meta_registrations", types.ModuleType("torchvision._meta_registrations"))

#: The largest relative error of programs in float16, computed here in float32 with values stored as float16.
_HALF_TOLERANCE = 5e-3
#: The least share of the work that has a counterpart in the conversion to Core ML.
_LEAST_PAIRED = 0.95
_SMALL = {
    "hidden_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 1024,
    "vocab_size": 2000,
}
_TINY_SPEECH = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "conv_dim": (32, 32, 32),
    "conv_stride": (5, 4, 4),
    "conv_kernel": (10, 8, 4),
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Net:
    """A network.

    Attributes:
        make: Builds the module.
        draw: Draws its inputs.
        names: The names of its inputs.
        compress: The compression of its weights; empty for none.
        dynamic: Dimensions that vary, as `torch.export.export` takes them.
        steps: Predictions one after another, for a network with states.
        core_ml: Why coremltools does not convert it; empty if it does.
        core_ai: What coreai-torch says when it does not convert it; empty if it does.
    """

    make: Callable[[], nn.Module]
    draw: Callable[[], tuple[Any, ...]]
    names: tuple[str, ...] = ("image",)
    compress: str = ""
    dynamic: Any = None
    steps: int = 0
    core_ml: str = ""
    core_ai: str = ""


class _Picked(nn.Module):
    """A network of which one of several results is the output."""

    def __init__(self, inner: nn.Module, pick: Callable[[Any], Any]) -> None:
        super().__init__()
        self.inner, self.pick = inner, pick

    def forward(self, *given: Any) -> Any:
        return self.pick(self.inner(*given))


def _image(size: int = 224) -> Callable[[], tuple[Any, ...]]:
    return lambda: (torch.randn(1, 3, size, size),)


def _timm(name: str, size: int = 224, **options: Any) -> _Net:
    def make() -> nn.Module:
        timm = pytest.importorskip("timm", exc_type=ImportError)
        made: nn.Module = timm.create_model(name, pretrained=False)
        return made

    return _Net(make=make, draw=_image(size), **options)


def _torchvision(name: str, size: int = 224, *, pick: str = "", **options: Any) -> _Net:
    given: dict[str, Any] = {"aux_logits": False, "init_weights": False} if name in _WITH_HELPERS else {}

    def make() -> nn.Module:
        models = pytest.importorskip("torchvision.models", exc_type=ImportError)
        weights = {"weights_backbone": None} if pick else {}
        made: nn.Module = models.get_model(name, weights=None, **weights, **given)
        return _Picked(made, lambda found: found[pick]) if pick else made

    return _Net(make=make, draw=_image(size), **options)


_WITH_HELPERS = ("googlenet", "inception_v3")


def _video(name: str, **options: Any) -> _Net:
    return replace(_torchvision(name, **options), draw=lambda: (torch.randn(1, 3, 4, 64, 64),))


def _transformer(
    kind: str,
    config: Mapping[str, Any],
    *,
    draw: Callable[[], tuple[Any, ...]] | None = None,
    part: str = "",
    pick: str = "last_hidden_state",
    **options: Any,
) -> _Net:
    def make() -> nn.Module:
        transformers = pytest.importorskip("transformers", exc_type=ImportError)
        model_type = getattr(transformers, kind)
        made = model_type(model_type.config_class(**config)).eval()
        return _Picked(getattr(made, part) if part else made, lambda found: getattr(found, pick))

    tokens = lambda: (torch.randint(0, 1000, (1, 32)),)  # noqa: E731
    return _Net(
        make=make, draw=draw or tokens, **{"names": ("tokens",) if draw is None else ("image",), **options}
    )


def _draw_tokens() -> tuple[Any, ...]:
    return (torch.randint(0, 1000, (1, 32)),)


class _Decoder(nn.Module):
    """A block of a decoder, whose keys and values are states that are written in one of several ways."""

    def __init__(self, room: int = 16, way: str = "mask") -> None:
        super().__init__()
        self.room, self.way = room, way
        self.words, self.norm = nn.Embedding(64, 32), nn.LayerNorm(32)
        self.qkv, self.out, self.head = nn.Linear(32, 96), nn.Linear(32, 32), nn.Linear(32, 64)
        self.register_buffer("keys", torch.zeros(1, 2, room, 16))
        self.register_buffer("values", torch.zeros(1, 2, room, 16))

    def forward(self, token: Any, position: Any) -> Any:
        x = self.words(token)
        parts = self.qkv(self.norm(x)).chunk(3, -1)
        q, k, v = (part.view(1, 1, 2, 16).transpose(1, 2) for part in parts)
        self._write(self.keys, k, position)
        self._write(self.values, v, position)
        mask = (torch.arange(self.room) <= position).view(1, 1, 1, self.room)
        found = nn.functional.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask)
        return self.head(x + self.out(found.transpose(1, 2).reshape(1, 1, -1)))

    def _write(self, cache: Any, row: Any, position: Any) -> None:
        if self.way == "mask":
            here = (torch.arange(self.room) == position).view(1, 1, self.room, 1)
            cache.copy_(torch.where(here, row, cache))
        elif self.way == "index_copy":
            cache.index_copy_(2, position, row)
        elif self.way == "index":
            cache[:, :, position] = row
        else:
            cache.scatter_(2, position.view(1, 1, 1, 1).expand(row.shape), row)


class _Llama(nn.Module):
    """A decoder with rotary embedding, shared keys and gated layers, whose keys and values are states."""

    def __init__(
        self, width: int = 64, heads: int = 4, shared: int = 2, layers: int = 2, room: int = 16
    ) -> None:
        super().__init__()
        self.heads, self.shared, self.room, self.size = heads, shared, room, width // heads
        self.words, self.norm, self.head = nn.Embedding(128, width), nn.RMSNorm(width), nn.Linear(width, 128)
        self.layers = nn.ModuleList(self._layer(width) for _ in range(layers))
        for layer in range(layers):
            self.register_buffer(f"keys_{layer}", torch.zeros(1, shared, room, self.size))
            self.register_buffer(f"values_{layer}", torch.zeros(1, shared, room, self.size))
        self.frequencies = 1 / 10000 ** (torch.arange(0, self.size, 2) / self.size)

    def _layer(self, width: int) -> nn.ModuleDict:
        sizes = {
            "q": (width, width),
            "k": (width, self.shared * self.size),
            "v": (width, self.shared * self.size),
            "out": (width, width),
            "gate": (width, 2 * width),
            "up": (width, 2 * width),
            "down": (2 * width, width),
        }
        linear = {name: nn.Linear(*size, bias=False) for name, size in sizes.items()}
        return nn.ModuleDict({**linear, "before": nn.RMSNorm(width), "after": nn.RMSNorm(width)})

    def _turn(self, x: Any, position: Any) -> Any:
        angle = position.float()[:, None] * self.frequencies[None]
        angle, half = torch.cat((angle, angle), -1), self.size // 2
        return x * angle.cos() + torch.cat((-x[..., half:], x[..., :half]), -1) * angle.sin()

    def forward(self, token: Any, position: Any) -> Any:
        x = self.words(token)
        here = (torch.arange(self.room) == position).view(1, 1, self.room, 1)
        mask = (torch.arange(self.room) <= position).view(1, 1, 1, self.room)
        for number, layer in enumerate(self.layers):
            y = layer["before"](x)
            q, k, v = (layer[name](y).view(1, 1, -1, self.size).transpose(1, 2) for name in "qkv")
            keys, values = getattr(self, f"keys_{number}"), getattr(self, f"values_{number}")
            keys.copy_(torch.where(here, self._turn(k, position), keys))
            values.copy_(torch.where(here, v, values))
            repeated = (one.repeat_interleave(self.heads // self.shared, 1) for one in (keys, values))
            found = nn.functional.scaled_dot_product_attention(
                self._turn(q, position), *repeated, attn_mask=mask
            )
            x = x + layer["out"](found.transpose(1, 2).reshape(1, 1, -1))
            y = layer["after"](x)
            x = x + layer["down"](nn.functional.silu(layer["gate"](y)) * layer["up"](y))
        return self.head(self.norm(x))


class _SelectiveScan(nn.Module):
    """A state space model whose steps depend on the input, as Mamba has them, unrolled."""

    def __init__(self, width: int = 32, states: int = 8, steps: int = 12) -> None:
        super().__init__()
        inner = 2 * width
        self.states, self.steps = states, steps
        self.enter, self.leave = nn.Linear(width, 2 * inner, False), nn.Linear(inner, width, False)
        self.mix = nn.Conv1d(inner, inner, 4, groups=inner, padding=3)
        self.project, self.pace = nn.Linear(inner, 4 + 2 * states, False), nn.Linear(4, inner)
        self.decay = nn.Parameter(torch.log(torch.arange(1, states + 1).float().repeat(inner, 1)))
        self.skip = nn.Parameter(torch.ones(inner))

    def forward(self, x: Any) -> Any:
        x, gate = self.enter(x).chunk(2, -1)
        x = nn.functional.silu(self.mix(x.transpose(1, 2))[..., : self.steps].transpose(1, 2))
        pace, given, taken = self.project(x).split([4, self.states, self.states], -1)
        pace = nn.functional.softplus(self.pace(pace))
        kept = torch.exp(torch.einsum("bld,dn->bldn", pace, -torch.exp(self.decay)))
        added = torch.einsum("bld,bln,bld->bldn", pace, given, x)
        state, results = torch.zeros(1, x.shape[-1], self.states), []
        for step in range(self.steps):
            state = kept[:, step] * state + added[:, step]
            results.append((state * taken[:, step, None]).sum(-1))
        return self.leave((torch.stack(results, 1) + x * self.skip) * nn.functional.silu(gate))


class _WhisperDecoder(nn.Module):
    """The decoder of Whisper, which attends to a sound that was encoded before."""

    def __init__(self) -> None:
        super().__init__()
        transformers = pytest.importorskip("transformers", exc_type=ImportError)
        config = {**_SEQUENCES, "max_source_positions": 50, "max_target_positions": 64, "use_cache": False}
        self.inner = transformers.WhisperModel(transformers.WhisperConfig(**config)).decoder

    def forward(self, tokens: Any, sound: Any) -> Any:
        found = self.inner(input_ids=tokens, encoder_hidden_states=sound, use_cache=False)
        return found.last_hidden_state


class _Detector(nn.Module):
    """The backbone and the heads of SSDLite, without the choice of boxes."""

    def __init__(self) -> None:
        super().__init__()
        detection = pytest.importorskip("torchvision.models.detection", exc_type=ImportError)
        made = detection.ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None)
        self.backbone, self.head = made.backbone, made.head

    def forward(self, x: Any) -> Any:
        found = self.head(list(self.backbone(x).values()))
        return torch.cat((found["bbox_regression"], found["cls_logits"]), -1)


class _Average(nn.Module):
    """A running mean in a state."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(16, 16)
        self.register_buffer("mean", torch.zeros(1, 16))

    def forward(self, x: Any) -> Any:
        self.mean.mul_(0.9).add_(0.1 * x)
        return self.mix(self.mean) + x


class _UNet(nn.Module):
    """An encoder and a decoder of images, with transposed convolutions and skipped connections."""

    def __init__(self) -> None:
        super().__init__()

        def double(inputs: int, outputs: int) -> nn.Module:
            return nn.Sequential(
                nn.Conv2d(inputs, outputs, 3, padding=1),
                nn.GroupNorm(4, outputs),
                nn.SiLU(),
                nn.Conv2d(outputs, outputs, 3, padding=1),
                nn.LeakyReLU(0.1),
            )

        self.first, self.second, self.third = double(3, 16), double(16, 32), double(32, 64)
        self.up_second, self.up_first = nn.ConvTranspose2d(64, 32, 2, 2), nn.ConvTranspose2d(32, 16, 2, 2)
        self.merge_second, self.merge_first = double(64, 32), double(32, 16)
        self.last = nn.Conv2d(16, 4, 1)

    def forward(self, x: Any) -> Any:
        first = self.first(x)
        second = self.second(nn.functional.max_pool2d(first, 2, 2))
        third = self.third(nn.functional.avg_pool2d(second, 2, 2))
        second = self.merge_second(torch.cat((self.up_second(third), second), 1))
        return self.last(self.merge_first(torch.cat((self.up_first(second), first), 1)))


class _Encoder(nn.Module):
    """Attention over a sequence of any length."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(32), nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x: Any) -> Any:
        b, s, _ = x.shape
        q, k, v = (part.view(b, s, 2, 16).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1))
        found = nn.functional.scaled_dot_product_attention(q, k, v)
        return x + self.out(found.transpose(1, 2).reshape(b, s, 32))


def _decoder(way: str) -> _Net:
    return _Net(
        make=lambda: _Decoder(way=way),
        draw=lambda: (torch.tensor([[3]]), torch.tensor([0])),
        names=("token", "position"),
        steps=4,
    )


def _recurrent(make: Callable[[], nn.Module], shape: tuple[int, ...]) -> _Net:
    return _Net(make=make, draw=lambda: (torch.randn(*shape),), names=("x",))


def _half(net: _Net, core_ml: str = "") -> _Net:
    def draw() -> tuple[Any, ...]:
        return tuple(one.half() if one.is_floating_point() else one for one in net.draw())

    return _Net(make=lambda: net.make().half(), draw=draw, names=net.names, core_ml=core_ml or net.core_ml)


def _compressed(net: _Net, compress: str) -> _Net:
    return _Net(make=net.make, draw=net.draw, names=net.names, compress=compress)


_SOUND = {"draw": lambda: (torch.randn(1, 4000),), "names": ("sound",)}
_RESNET, _VIT = _torchvision("resnet18"), _timm("vit_tiny_patch16_224")
_BERT = _transformer("BertModel", _SMALL)
_SQUEEZE = _torchvision("squeezenet1_1", 96)

_UNSUPPORTED = "unsupported ATen ops: "
_STRIDED = _UNSUPPORTED + "aten.as_strided.default"
_ATTENTION = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 256}
_SEQUENCES = {
    "vocab_size": 500,
    "d_model": 128,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 256,
    "decoder_ffn_dim": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}

_NETS: Mapping[str, _Net] = {
    "resnet18": _RESNET,
    "resnet50": _timm("resnet50"),
    "mobilenetv2": _timm("mobilenetv2_100"),
    "mobilenetv3": _timm("mobilenetv3_large_100"),
    "mobilenetv4": _timm("mobilenetv4_conv_small"),
    "efficientnet": _timm("efficientnet_b0"),
    "densenet": _torchvision("densenet121"),
    "squeezenet": _torchvision("squeezenet1_1"),
    "shufflenet": _torchvision("shufflenet_v2_x1_0"),
    "googlenet": _torchvision("googlenet"),
    "mnasnet": _torchvision("mnasnet1_0"),
    "regnet": _torchvision("regnet_y_400mf"),
    "regnetx": _timm("regnetx_002"),
    "inception": _torchvision("inception_v3", 299),
    "repvgg": _timm("repvgg_a0"),
    "ghostnet": _timm("ghostnet_100"),
    "res2net": _timm("res2net50_26w_4s"),
    "ese_vovnet": _timm("ese_vovnet19b_dw"),
    "hrnet": _timm("hrnet_w18_small"),
    "dla": _timm("dla34"),
    "vit": _VIT,
    "deit": _timm("deit_tiny_patch16_224"),
    "mixer": _timm("mixer_s32_224"),
    "poolformer": _timm("poolformer_s12"),
    "mobilevit": _timm("mobilevit_xxs", 256),
    "mobilevitv2": _timm("mobilevitv2_050", 256),
    "efficientvit": _timm("efficientvit_b0"),
    "levit": _timm("levit_128s"),
    "xcit": _timm("xcit_nano_12_p16_224"),
    "maxvit": _timm("maxvit_rmlp_pico_rw_256", 256, core_ai=_STRIDED),
    "swin": _torchvision("swin_t", core_ai=_STRIDED),
    "convnextv2": _timm("convnextv2_atto", core_ai=_STRIDED),
    "edgenext": _timm("edgenext_xx_small", 256, core_ai=_STRIDED),
    "focalnet": _timm("focalnet_tiny_srf", core_ai=_STRIDED),
    "nfnet": _timm("eca_nfnet_l0", core_ai=_UNSUPPORTED + "aten._native_batch_norm_legit.no_stats"),
    "volo": _timm("volo_d1_224", core_ai="tuple index out of range"),
    "mobileone": _timm("mobileone_s0"),
    "crossvit": _timm("crossvit_tiny_240", 240, core_ml="upsample_bicubic2d is not converted"),
    "pvt": _timm("pvt_v2_b0"),
    "cait": _timm("cait_xxs24_224"),
    "efficientformer": _timm("efficientformer_l1"),
    "fastvit": _timm("fastvit_t8", 256),
    "repvit": _timm("repvit_m1"),
    "tinynet": _timm("tinynet_e", 106),
    "eva": _timm("eva02_tiny_patch14_224"),
    "resnet_3d": _video("r3d_18", core_ml="adaptive_avg_pool3d is not converted"),
    "mixed_3d": _video("mc3_18", core_ml="adaptive_avg_pool3d is not converted"),
    "deeplab": _torchvision("deeplabv3_mobilenet_v3_large", pick="out"),
    "lraspp": _torchvision("lraspp_mobilenet_v3_large", pick="out"),
    "fcn": _torchvision("fcn_resnet50", 128, pick="out"),
    "unet": _Net(make=_UNet, draw=_image(64)),
    "bert": _BERT,
    "albert": _transformer("AlbertModel", {**_SMALL, "embedding_size": 64}),
    "electra": _transformer("ElectraModel", {**_SMALL, "embedding_size": 64}),
    "roberta": _transformer("RobertaModel", _SMALL),
    "distilbert": _transformer(
        "DistilBertModel", {"dim": 256, "n_layers": 2, "n_heads": 4, "hidden_dim": 512, "vocab_size": 2000}
    ),
    "t5": _transformer(
        "T5EncoderModel",
        {"d_model": 256, "d_ff": 512, "num_layers": 2, "num_heads": 4, "d_kv": 64, "vocab_size": 2000},
    ),
    "segformer": _transformer("SegformerForSemanticSegmentation", {}, draw=_image(128), pick="logits"),
    "clip": _transformer(
        "CLIPVisionModel",
        {**{k: v for k, v in _SMALL.items() if k != "vocab_size"}, "patch_size": 32},
        draw=_image(),
    ),
    "wav2vec2": _transformer("Wav2Vec2Model", {**_TINY_SPEECH, "num_feat_extract_layers": 3}, **_SOUND),
    "gpt2": _transformer(
        "GPT2Model",
        {"n_embd": 128, "n_layer": 2, "n_head": 4, "vocab_size": 2000, "use_cache": False},
        core_ml="diff is not converted",
    ),
    "llama": _transformer(
        "LlamaModel",
        {**_SMALL, "use_cache": False, "num_key_value_heads": 2},
        core_ml="diff is not converted",
    ),
    "gpt_neo": _transformer(
        "GPTNeoModel",
        {
            "hidden_size": 128,
            "intermediate_size": 256,
            "num_layers": 2,
            "num_heads": 4,
            "attention_types": [[["global", "local"], 1]],
            "vocab_size": 2000,
            "use_cache": False,
        },
        core_ml="diff is not converted",
    ),
    "qwen": _transformer(
        "Qwen2Model",
        {**_SMALL, "use_cache": False, "num_key_value_heads": 2},
        core_ml="diff is not converted",
    ),
    "bart": _transformer(
        "BartModel",
        {**_SEQUENCES, "vocab_size": 2000, "use_cache": False},
        core_ml="select_scatter is not converted with integers and floats",
    ),
    "whisper": _transformer(
        "WhisperModel",
        {**_SEQUENCES, "max_source_positions": 100},
        part="encoder",
        draw=lambda: (torch.randn(1, 80, 200),),
    ),
    "clip_text": _transformer("CLIPTextModel", {**_ATTENTION, "vocab_size": 2000}),
    "deberta": _transformer(
        "DebertaV2Model",
        {**_SMALL, "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "max_relative_positions": 64},
    ),
    "mobilebert": _transformer("MobileBertModel", {"vocab_size": 2000, "num_hidden_layers": 2}),
    "dinov2": _transformer(
        "Dinov2Model", {**_ATTENTION, "image_size": 112, "patch_size": 14}, draw=_image(112)
    ),
    "yolos": _transformer(
        "YolosModel",
        {**_ATTENTION, "image_size": [128, 128], "num_detection_tokens": 10},
        draw=_image(128),
        core_ml="upsample_bicubic2d is not converted",
    ),
    "whisper_decoder": _Net(
        make=_WhisperDecoder,
        draw=lambda: (torch.randint(0, 400, (1, 12)), torch.randn(1, 50, 128)),
        names=("tokens", "sound"),
        core_ml="the trace is not converted: unordered_map::at",
    ),
    "mpnet": _transformer("MPNetModel", _SMALL),
    "squeezebert": _transformer("SqueezeBertModel", {**_SMALL, "embedding_size": 256}),
    "convbert": _transformer(
        "ConvBertModel", {**_SMALL, "embedding_size": 128}, core_ml="multiply is not converted"
    ),
    "gpt_neox": _transformer(
        "GPTNeoXModel",
        {**_SMALL, "use_cache": False},
        core_ml="the trace is not converted: unordered_map::at",
    ),
    "mamba": _transformer(
        "MambaModel",
        {"hidden_size": 64, "num_hidden_layers": 2, "state_size": 8, "vocab_size": 2000, "use_cache": False},
    ),
    "siglip": _transformer(
        "SiglipVisionModel", {**_ATTENTION, "image_size": 96, "patch_size": 16}, draw=_image(96)
    ),
    "hubert": _transformer("HubertModel", {**_TINY_SPEECH, "num_feat_extract_layers": 3}, **_SOUND),
    "efficientvit_m0": _timm("efficientvit_m0"),
    "lambda_resnet": _timm("lambda_resnet26rpt_256", 256),
    "botnet": _timm("botnet26t_256", 256),
    "starnet": _timm("starnet_s1"),
    "rexnet": _timm("rexnet_100"),
    "ssdlite": _Net(make=_Detector, draw=_image(320)),
    "mpnet_int8": _compressed(_transformer("MPNetModel", _SMALL), "int8"),
    "selective_scan": _Net(make=_SelectiveScan, draw=lambda: (torch.randn(1, 12, 32),), names=("x",)),
    **{name: _recurrent(make, shape) for name, (make, shape) in RECURRENT.items()},
    "resnet18_fp16": _half(_RESNET),
    "vit_fp16": _half(_VIT, "coremltools rejects normalisations in float16"),
    "bert_fp16": _half(_BERT, "coremltools rejects normalisations in float16"),
    "mobilenetv2_fp16": _half(
        _timm("mobilenetv2_100"), "coremltools gives relu6 limits in float32, which it then rejects"
    ),
    "squeezenet_int8": _compressed(_SQUEEZE, "int8"),
    "bert_int8": _compressed(_BERT, "int8"),
    "bert_int4": _compressed(_BERT, "int4"),
    "squeezenet_palettized": _compressed(_SQUEEZE, "palettized"),
    "bert_palettized": _compressed(_BERT, "palettized"),
    "decoder_with_states": _decoder("mask"),
    "decoder_index_copy": _decoder("index_copy"),
    "decoder_index": _decoder("index"),
    "decoder_scatter": _decoder("scatter"),
    "llama_with_states": _Net(
        make=_Llama,
        draw=lambda: (torch.tensor([[3]]), torch.tensor([0])),
        names=("token", "position"),
        steps=4,
    ),
    "average_with_state": _Net(make=_Average, draw=lambda: (torch.randn(1, 16),), names=("x",), steps=3),
    "encoder_dynamic": _Net(
        make=_Encoder, draw=lambda: (torch.randn(1, 8, 32),), names=("x",), dynamic=({1: (2, 64)},)
    ),
    "unet_dynamic": _Net(make=_UNet, draw=_image(64), dynamic=({2: (16, 128, 4), 3: (16, 128, 4)},)),
}


@pytest.mark.parametrize("name", _NETS)
def test_networks(name: str, tmp_path: Path) -> None:
    torch.manual_seed(8)
    net = _NETS[name]
    module, inputs = net.make().eval(), net.draw()
    _settle(module)
    bundle = tmp_path / "net.aimodel"
    if net.core_ai:
        with pytest.raises((ValueError, IndexError), match=re.escape(net.core_ai)):
            _convert(net, module, inputs, bundle)
        pytest.xfail(f"coreai-torch does not convert it: {net.core_ai}")
    exported = _convert(net, module, inputs, bundle)
    check_walk(bundle)
    _check_translation(bundle)
    if net.compress:
        _check_against_interpreter(net, inputs, bundle)
    elif net.steps:
        _check_steps(net, module, bundle)
    else:
        _check_outputs(net, module, inputs, bundle)
    if net.core_ml or net.compress or net.steps or net.dynamic:
        return
    package = tmp_path / "net.mlpackage"
    _convert_to_core_ml(module, inputs, exported, package)
    before, after = (api.inspect(path, list_ops=True).ops for path in (package, bundle))
    share = pair_work(before, after).share
    assert share is not None
    assert share >= _LEAST_PAIRED, f"{share:.1%} of the work is paired"


def _settle(module: nn.Module) -> None:
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):  # Or else it is the identity.
            part.running_mean.uniform_(-0.1, 0.1)
            part.running_var.uniform_(0.8, 1.2)


def _convert(net: _Net, module: nn.Module, inputs: tuple[Any, ...], bundle: Path) -> Any:
    """Converts a network, and returns the exported program."""
    dynamic = None
    if net.dynamic is not None:
        dynamic = tuple(
            {axis: _dimension(f"d{axis}", *bounds) for axis, bounds in given.items()} for given in net.dynamic
        )
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = torch.export.export(module, inputs, dynamic_shapes=dynamic)
        lowered = exported.run_decompositions(coreai_torch.get_decomp_table())
        converter, names = coreai_torch.TorchConverter(), list(net.names)
        program = converter.add_exported_program(lowered, input_names=names).to_coreai()
        _compress(net, program).save_asset(bundle)
    return exported


def _convert_to_core_ml(module: nn.Module, inputs: tuple[Any, ...], exported: Any, package: Path) -> None:
    """Converts the exported program, or where coremltools does not support it, a trace."""
    ct: Any = pytest.importorskip("coremltools", exc_type=ImportError)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            _to_core_ml(exported, package)
        except NotImplementedError:
            traced = torch.jit.trace(module, inputs, check_trace=False)
            given = [
                ct.TensorType(shape=one.shape, dtype=np.float32 if one.is_floating_point() else np.int32)
                for one in inputs
            ]
            ct.convert(
                traced,
                inputs=given,
                compute_precision=ct.precision.FLOAT32,
                minimum_deployment_target=ct.target.iOS18,
                skip_model_load=True,
            ).save(str(package))


def _dimension(name: str, least: int, most: int, step: int = 1) -> Any:
    if step == 1:
        return torch.export.Dim(name, min=least, max=most)
    return step * torch.export.Dim(name, min=least // step, max=most // step)


def _compress(net: _Net, program: Any) -> Any:
    if not net.compress:
        return program
    utils = pytest.importorskip("coreai_opt.coreai_utils", exc_type=ImportError)
    if net.compress == "palettized":
        pytest.importorskip("sklearn", exc_type=ImportError)
        return utils.palettize_weights(program, lut_dtype=None, n_bits=4, weight_num_threshold=1000)
    dtype = {"int8": utils.DType.INT8, "int4": utils.DType.INT4}[net.compress]
    return utils.quantize_weights(program, dtype=dtype, weight_num_threshold=1000)


def _check_translation(bundle: Path) -> None:
    """Checks that every operation of the file has a translation."""
    content = read_aimodel(bundle).content
    assert isinstance(content, Program)
    problems = {
        f"{layer.type}: {layer.problem}"
        for function in content.functions.values()
        for layer in function.layers
        if layer.problem
    }
    assert not problems


def _given(net: _Net, inputs: tuple[Any, ...]) -> dict[str, np.ndarray]:
    arrays = (one.numpy() for one in inputs)
    return {
        name: array if array.dtype.kind == "f" else array.astype(np.int32)
        for name, array in zip(net.names, arrays, strict=True)
    }


def _check_outputs(net: _Net, module: nn.Module, inputs: tuple[Any, ...], bundle: Path) -> None:
    is_half = any(one.dtype == torch.float16 for one in module.state_dict().values())
    with torch.no_grad():
        expected = module.float()(*(one.float() if one.dtype == torch.float16 else one for one in inputs))
    found = list(api.predict(bundle, _given(net, inputs)).values())
    _compare(found[0], expected.numpy(), _HALF_TOLERANCE if is_half else TOLERANCE)
    if is_half:
        module.half()


def _compare(found: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    assert found.shape == expected.shape
    error = float(np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-6))
    assert error <= tolerance, f"off by {error:.2e}"


def _check_against_interpreter(net: _Net, inputs: tuple[Any, ...], bundle: Path) -> None:
    """Compares predictions with those of Core AI's interpreter: PyTorch has other weights."""
    given = _given(net, inputs)
    theirs = record_values(bundle, "main", given, 4 << 30).outputs
    for name, found in api.predict(bundle, given).items():
        _compare(found, theirs[name], TOLERANCE)


def _check_steps(net: _Net, module: nn.Module, bundle: Path) -> None:
    """Compares predictions that share states."""
    for buffer in module.buffers():
        buffer.zero_()
    with api.open(bundle) as predictor:
        state = predictor.new_state()
        for step in range(net.steps):
            inputs = net.draw() if len(net.names) == 1 else (torch.tensor([[step + 5]]), torch.tensor([step]))
            with torch.no_grad():
                expected = module(*inputs).numpy()
            found = predictor.predict(_given(net, inputs), state)
            _compare(next(iter(found.values())), expected, TOLERANCE)
