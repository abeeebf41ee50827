"""Networks converted to Core AI: what is read equals coreai-core's walk, predictions equal PyTorch's."""

from __future__ import annotations

import hashlib
import random
import resource
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coremlscope import api
from coremlscope.base.errors import CoremlscopeError
from coremlscope.formats.aimodel import dialect, reader
from coremlscope.formats.aimodel.reader import OWN_READER, open_content, read_aimodel
from tests.support.aimodels import SAMPLES, copy_bundle, sample
from tests.support.core_ai_contents import assert_same

torch = pytest.importorskip("torch", exc_type=ImportError)
coreai_torch = pytest.importorskip("coreai_torch", exc_type=ImportError)

import torch.nn.functional as F  # noqa: E402, N812
from torch import nn  # noqa: E402

from benchmarks.networks import NETWORKS, Network  # noqa: E402
from tests.support.core_ai_conversion import check_predictions, check_walk, convert  # noqa: E402

# torchvision's compiled part does not load with PyTorch's CPU build.
sys.modules.setdefault("torchvision._meta_registrations", types.ModuleType("torchvision._meta_registrations"))


class _Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.GRU(8, 12, batch_first=True), nn.LSTM(12, 6, batch_first=True)

    def forward(self, x: Any) -> Any:
        return self.second(self.first(x)[0])[0]


class _Attention(nn.Module):
    """Attention with a causal mask, with another scale, and with normalisations of two kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs, self.outputs = nn.Linear(32, 96), nn.Linear(32, 32, bias=False)
        self.layer, self.root = nn.LayerNorm(32), nn.RMSNorm(32)

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        parts = self.inputs(self.layer(x)).chunk(3, -1)
        q, k, v = (part.view(batch, length, 4, 8).transpose(1, 2) for part in parts)
        first = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        both = first + F.scaled_dot_product_attention(q, k, v, scale=0.3)
        return self.root(x + self.outputs(both.transpose(1, 2).reshape(batch, length, width)))


class _Images(nn.Module):
    """Poolings, paddings, resizing, transposed convolutions and normalisations."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 8, 4, 2, 1), nn.ConvTranspose2d(8, 3, 3, 2, 1, output_padding=1)
        self.instance, self.group = nn.InstanceNorm2d(8, affine=True), nn.GroupNorm(2, 8)

    def forward(self, x: Any) -> Any:
        y = self.up(F.leaky_relu(self.group(self.instance(self.down(x))), 0.1))
        return (
            y,
            F.avg_pool2d(x, 3, 2, 1),
            F.max_pool2d(x, 3, 2, 1),
            F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
            F.adaptive_avg_pool2d(x, 2),
            F.pad(x, (1, 2, 3, 0)),
            F.pad(x, (1, 2, 0, 1), mode="reflect"),
            F.pad(x, (2, 1, 1, 3), mode="replicate"),
            F.interpolate(x, size=(9, 13), mode="bilinear", align_corners=True),
            F.interpolate(x, size=(9, 13), mode="bilinear", align_corners=False),
            F.interpolate(x, scale_factor=2, mode="nearest"),
            F.pixel_shuffle(y.repeat(1, 4, 1, 1), 2),
        )


class _Elements(nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        return (
            x.exp() + y.abs().log1p(),
            torch.atan2(x, y),
            x.clamp(-0.5, 0.5) ** 2,
            torch.floor(x * 3) + torch.ceil(y) + torch.round(x * 2.3) + torch.trunc(y * 4),
            torch.remainder(x * 5, y.abs() + 1),
            torch.where(x > y, x, y.neg()),
            torch.erf(x) + torch.sin(y) + torch.cosh(x) + torch.sign(y),
            torch.rsqrt(x.abs() + 1) + torch.asinh(x) + torch.tan(y),
            F.softplus(x) + F.hardswish(y) + F.mish(x),
            F.gelu(x, approximate="tanh") + F.gelu(y),
        )


class _Indices(nn.Module):
    def forward(self, x: Any, indices: Any) -> Any:
        return (
            torch.gather(x, 1, indices),
            x.cumsum(1),
            x.topk(3, 1)[0],
            x.argmax(1),
            x.flip(1),
            x[:, 1:7:2],
            torch.roll(x, 2, 1),
            x.index_select(0, torch.tensor([1, 0])),
            x.amax(1),
            torch.scatter(x, 1, indices, 1.5),
            torch.einsum("bi,bj->bij", x, x),
        )


class _Branch(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda z: z * 2, lambda z: z - 1, (x,))


class _Volumes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv3d(2, 4, 3, padding=1, stride=2)
        self.second = nn.Conv1d(4, 4, 3, padding=2, dilation=2, groups=2)

    def forward(self, x: Any) -> Any:
        return self.second(F.relu6(self.first(x)).mean((2, 3)))


_MODULES = {
    "recurrent": (_Recurrent, lambda: (torch.randn(1, 5, 8),)),
    "attention": (_Attention, lambda: (torch.randn(2, 7, 32),)),
    "images": (_Images, lambda: (torch.randn(1, 3, 12, 12),)),
    "elements": (_Elements, lambda: (torch.randn(2, 5), torch.randn(2, 5))),
    "indices": (_Indices, lambda: (torch.randn(2, 8), torch.tensor([[0, 3, 1], [7, 2, 6]]))),
    "branch": (_Branch, lambda: (torch.randn(3, 4),)),
    "volumes": (_Volumes, lambda: (torch.randn(1, 2, 8, 8, 8),)),
}

#: Networks of timm and torchvision.
_PUBLISHED = (
    *("convnext_atto", "efficientformer_l1", "ghostnet_100", "levit_128s", "mixer_s32_224", "mobilevit_xxs"),
    *("poolformer_s12", "pvt_v2_b0", "regnety_004", "resmlp_12_224", "vit_tiny_patch16_224", "densenet121"),
    *("googlenet", "mnasnet0_5", "resnet18", "shufflenet_v2_x0_5", "squeezenet1_1"),
)


@pytest.mark.parametrize("name", _MODULES)
def test_modules(name: str, tmp_path: Path) -> None:
    torch.manual_seed(5)
    make, draw = _MODULES[name]
    module, inputs = make(), draw()
    bundle = tmp_path / "net.aimodel"
    convert(module, inputs, bundle)
    check_walk(bundle)
    check_predictions(module, inputs, bundle)


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.name)
def test_networks(network: Network, tmp_path: Path) -> None:
    if network.script:
        pytest.skip("scripts are not exported")
    module = network.make()
    inputs = tuple(torch.from_numpy(value) for value in network.draw(0).values())
    bundle = tmp_path / "net.aimodel"
    convert(module, inputs, bundle)
    check_walk(bundle)
    check_predictions(module, inputs, bundle)


@pytest.mark.parametrize("name", _PUBLISHED)
def test_published_networks(name: str, tmp_path: Path) -> None:
    torch.manual_seed(8)
    if name in ("googlenet", "mnasnet0_5", "resnet18", "shufflenet_v2_x0_5", "squeezenet1_1"):
        models = pytest.importorskip("torchvision.models", exc_type=ImportError)
        options = {"aux_logits": False, "init_weights": True} if name == "googlenet" else {}
        module = getattr(models, name)(weights=None, **options)
    else:
        module = pytest.importorskip("timm", exc_type=ImportError).create_model(name, pretrained=False)
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):  # Or else it is the identity.
            part.running_mean.uniform_(-0.1, 0.1)
            part.running_var.uniform_(0.8, 1.2)
    size = 256 if name == "mobilevit_xxs" else 224
    inputs = (torch.randn(1, 3, size, size),)
    bundle = tmp_path / "net.aimodel"
    convert(module, inputs, bundle)
    check_walk(bundle)
    check_predictions(module, inputs, bundle)


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_are_read_as_by_coreai_core(name: str) -> None:
    check_walk(sample(name))


def test_compressed_weights(tmp_path: Path) -> None:
    """Weights in blocks are read, and are close to those that they were made from."""
    utils = pytest.importorskip("coreai_opt.coreai_utils", exc_type=ImportError)
    torch.manual_seed(6)
    module = nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 36, 16))
    inputs = (torch.randn(1, 3, 8, 8),)
    for name, change in (
        ("int8", lambda p: utils.quantize_weights(p, dtype=utils.DType.INT8, weight_num_threshold=100)),
        ("int4", lambda p: utils.quantize_weights(p, dtype=utils.DType.INT4, weight_num_threshold=100)),
    ):
        bundle = tmp_path / f"{name}.aimodel"
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exported = torch.export.export(module.eval(), inputs)
            exported = exported.run_decompositions(coreai_torch.get_decomp_table())
            program = coreai_torch.TorchConverter().add_exported_program(exported).to_coreai()
            change(program).save_asset(bundle)
        check_walk(bundle)
        model = read_aimodel(bundle)
        feature = model.description.main.inputs[0].name
        (found,) = api.predict(bundle, {feature: inputs[0].numpy()}).values()
        with torch.no_grad():
            exact = module(*inputs).numpy()
        assert 1e-6 < np.abs(found - exact).max() / np.abs(exact).max() < 0.3
        assert api.inspect(bundle).weights_bytes < 0.4 * 32 * 36 * 16 * 4


@pytest.mark.parametrize("name", SAMPLES)
def test_coreai_core_takes_over_for_unknown_encodings(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without our decoding of resources, which hold the large weights, coreai-core reads the same program."""
    own = open_content(sample(name))
    monkeypatch.delitem(dialect._READERS, 7)
    theirs = open_content(sample(name))
    monkeypatch.undo()
    assert own.reader == OWN_READER
    assert "encodings are not known: attribute 7" in theirs.reader
    assert_same(own.content, theirs.content)


def test_mutated_bundles_do_not_end_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """coreai-core aborts on most damaged files, in a process of its own."""
    monkeypatch.setattr(reader, "KNOWN_VERSION", 1)
    bundle = copy_bundle("tiny_decoder_state", tmp_path)
    program, chance, readers = (bundle / "main.mlirb").read_bytes(), random.Random(9), []
    for _ in range(40):
        mutated = bytearray(program)
        for _ in range(4):
            mutated[chance.randrange(200, len(mutated))] = chance.randrange(256)
        (bundle / "main.mlirb").write_bytes(mutated)
        (bundle / "main.hash").write_bytes(hashlib.sha256(mutated).digest())
        try:
            readers.append(read_aimodel(bundle).reader)
        except CoremlscopeError as error:
            readers.append(f"error: {error.message}")
    assert len(readers) == 40
    assert any(reader.startswith("coreai-core") for reader in readers)
    assert any("could not read it" in reader or reader == OWN_READER for reader in readers)


def test_mutated_bundles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 10,000 mutations, each is read or is an error with a sentence; memory stays bounded."""
    monkeypatch.setattr(reader.importlib.util, "find_spec", lambda _: None)  # Our reader alone.
    bundles = [copy_bundle(name, tmp_path) for name in SAMPLES]
    programs = [(bundle / "main.mlirb").read_bytes() for bundle in bundles]
    chance = random.Random(7)
    read = failed = 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for index in range(10_000):
        bundle, program = bundles[index % len(bundles)], bytearray(programs[index % len(bundles)])
        for _ in range(chance.choice((1, 1, 2, 4, 16))):
            program[chance.randrange(4, len(program))] = chance.choice((0, 1, 255, chance.randrange(256)))
        if chance.random() < 0.05:
            del program[chance.randrange(4, len(program)) :]
        (bundle / "main.mlirb").write_bytes(program)
        (bundle / "main.hash").write_bytes(hashlib.sha256(program).digest())
        try:
            read_aimodel(bundle)
            read += 1
        except CoremlscopeError as error:
            failed += " " in error.message
    assert read > 1000
    assert failed == 10_000 - read > 1000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 512 * 1024
