"""Variants of MobileNetV2 and of a vision transformer beside those of direct calls of coremltools, which
predicts through the drop-in."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import coremltools as ct
import coremltools.optimize.coreml as cto
import numpy as np
import pytest
from coremltools.models.utils import _apply_graph_pass
from PIL import Image

import coremlscope
from coremlscope.formats import container
from coremlscope.formats.sample import write_sample
from coremlscope.model.ir import Constant, Program
from coremlscope.results.variants import Variant
from coremlscope.studies.variants.study import what_if

#: The version of the specification of iOS 18.
_IOS_18 = 9
#: The bytes of a header in the weight file, and of the alignment before the data, at most.
_HEADER = 128
#: The elements of the shortest constant in the weight file.
_LEAST_STORED = 10
_WEIGHTS = "Data/com.apple.CoreML/weights/weight.bin"

Model = Any


#: coremltools clusters smaller weights with scikit-learn.
_LEAST_WEIGHT = 10_000 if importlib.util.find_spec("sklearn") is None else 2048


def _palettized(bits: int) -> Callable[[Model], Model]:
    config = cto.OpPalettizerConfig(nbits=bits, mode="kmeans", weight_threshold=_LEAST_WEIGHT)
    return lambda model: cto.palettize_weights(model, cto.OptimizationConfig(global_config=config))


def _quantized(joint: bool = False, **options: Any) -> Callable[[Model], Model]:
    config = cto.OpLinearQuantizerConfig(mode="linear_symmetric", **options)
    return lambda model: cto.linear_quantize_weights(
        model, cto.OptimizationConfig(global_config=config), joint_compression=joint
    )


def _pruned(share: float) -> Callable[[Model], Model]:
    config = cto.OpMagnitudePrunerConfig(target_sparsity=share)
    return lambda model: cto.prune_weights(model, cto.OptimizationConfig(global_config=config))


def _raised(model: Model) -> Model:
    return _apply_graph_pass(model, [], spec_version=_IOS_18, skip_model_load=True)


DIRECT: Mapping[str, Callable[[Model], Model]] = {
    "palettize-8": _palettized(8),
    "palettize-6": _palettized(6),
    "palettize-4": _palettized(4),
    "palettize-2": _palettized(2),
    "palettize-1": _palettized(1),
    "int8": _quantized(dtype="int8", granularity="per_channel"),
    "int8-tensor": _quantized(dtype="int8", granularity="per_tensor"),
    "int4": lambda model: _quantized(dtype="int4", granularity="per_channel")(_raised(model)),
    "int4-block-32": lambda model: _quantized(dtype="int4", granularity="per_block", block_size=32)(
        _raised(model)
    ),
    "prune-50": _pruned(0.5),
    "prune-75": _pruned(0.75),
    "prune-50+int8": lambda model: _quantized(joint=True, dtype="int8", granularity="per_channel")(
        _pruned(0.5)(_raised(model))
    ),
}


def _vit(path: Path) -> None:
    """Writes a vision transformer of two blocks over pictures of 64×64 pixels."""
    torch = pytest.importorskip("torch", exc_type=ImportError)

    class Vit(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.patches = torch.nn.Conv2d(3, 192, 8, 8)
            self.places = torch.nn.Parameter(torch.randn(1, 64, 192) * 0.1)
            layer = torch.nn.TransformerEncoderLayer(192, 3, 768, 0.0, "gelu", batch_first=True)
            self.blocks, self.head = torch.nn.TransformerEncoder(layer, 2), torch.nn.Linear(192, 100)

        def forward(self, x: Any) -> Any:
            x = self.patches(x).flatten(2).transpose(1, 2) + self.places
            for block in self.blocks.layers:
                mixed = block.self_attn(*[block.norm1(x)] * 3, need_weights=False)[0]
                x = x + mixed
                x = x + block.linear2(block.activation(block.linear1(block.norm2(x))))
            return self.head(x.mean(1))

    torch.manual_seed(5)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(Vit().eval(), torch.zeros(1, 3, 64, 64))
        ct.convert(
            traced,
            inputs=[ct.TensorType(name="image", shape=(1, 3, 64, 64))],
            outputs=[ct.TensorType(name="scores")],
            minimum_deployment_target=ct.target.iOS17,
            skip_model_load=True,
        ).save(str(path))


@pytest.fixture(scope="module", params=["mobilenet", "vit"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MobileNetV2 at its full size, and a small vision transformer."""
    path = tmp_path_factory.mktemp("variants") / f"{request.param}.mlpackage"
    if request.param == "vit":
        _vit(path)
    else:
        write_sample(path)
    return path


@pytest.fixture(scope="module")
def images(model: Path) -> list[dict[str, Any]]:
    random = np.random.default_rng(7)
    if model.stem == "vit":
        return [{"image": random.standard_normal((1, 3, 64, 64)).astype(np.float32)} for _ in range(2)]
    pixels = random.integers(0, 256, (2, 224, 224, 3), dtype=np.uint8)
    return [{"image": Image.fromarray(one)} for one in pixels]


@pytest.fixture(scope="module")
def variants(model: Path, images: list[dict[str, Any]]) -> dict[str, Variant]:
    report = what_if(model, transforms=tuple(DIRECT), inputs=images, has_cache=False)
    return {one.name: one for one in report.variants}


@pytest.fixture(scope="module")
def dropin() -> Iterator[None]:
    coremlscope.install()
    yield
    coremlscope.uninstall()


def _stored_arrays(path: Path) -> int:
    """Returns the number of constants in the weight file of a model; shorter ones are written inline."""
    program = container.read(path).content
    assert isinstance(program, Program)
    ops = [op for function in program.functions.values() for op in function.graph.walk()]
    given = [one for op in ops for several in op.inputs.values() for one in several]
    constants = [one for one in given if isinstance(one, Constant)]
    constants += [one for op in ops for one in op.attributes.values()]
    return sum(getattr(one.type, "elements", 0) >= _LEAST_STORED for one in constants)


def _probabilities(path: Path, images: list[dict[str, Any]]) -> np.ndarray:
    """The scores of all classes in a row for each image, predicted through coremltools."""
    loaded = ct.models.MLModel(str(path), compute_units=ct.ComputeUnit.CPU_ONLY)
    found = [loaded.predict(image) for image in images]
    names = [name for name, value in found[0].items() if isinstance(value, dict)]
    if not names:
        return np.array([np.ravel(next(iter(one.values()))) for one in found], np.float64)
    labels = sorted(found[0][names[0]], key=str)
    return np.array([[one[names[0]][label] for label in labels] for one in found], np.float64)


@pytest.mark.usefixtures("dropin")
# coremltools prunes by a percentile that overflows in fp16.
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", DIRECT)
def test_sizes_and_differences_are_those_of_coremltools(
    name: str, variants: dict[str, Variant], model: Path, images: list[dict[str, Any]], tmp_path: Path
) -> None:
    found, path = variants[name], tmp_path / "direct.mlpackage"
    assert not found.failure
    DIRECT[name](ct.models.MLModel(str(model), skip_model_load=True)).save(str(path))
    assert found.weights_bytes is not None
    # Headers and alignment are those of the file.
    stored = (path / _WEIGHTS).stat().st_size
    assert 0 <= stored - found.weights_bytes <= _HEADER * _stored_arrays(path)
    assert found.size_bytes == pytest.approx(container.read(path).size_bytes, abs=400)  # ids in the manifest

    original, other = _probabilities(model, images), _probabilities(path, images)
    assert found.difference is not None
    (measured,) = (one for one in found.difference.outputs if one.max_abs is not None)
    assert measured.max_abs == pytest.approx(np.abs(original - other).max(), rel=1e-3)
    snr = 10 * np.log10(np.square(original).sum() / np.square(original - other).sum())
    assert measured.snr_db == pytest.approx(snr, abs=0.01)
    same = (original.argmax(axis=1) == other.argmax(axis=1)).mean()
    assert measured.top1 == pytest.approx(same)
