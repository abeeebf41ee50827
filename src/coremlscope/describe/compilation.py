"""What Apple's compiler folded and fused in a compiled neural network, as far as its folder tells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from coremlscope.base.errors import CoremlscopeError
from coremlscope.describe.stages import programs_of
from coremlscope.formats.compiled.metadata import read_metadata_file
from coremlscope.model.ir import Layer, Model, Op

#: Functions that layers apply to their own result, by the operation that stands for them here.
_FUSED = ("relu", "tanh")
#: Layers that are folded into others, in the spelling of the source's counts and of the compiled file.
_FOLDED = {"BatchNorm": "batchnorm", "Scale": "scale", "Bias": "bias"}


def describe_compilation(model: Model) -> tuple[tuple[str, str], ...]:
    """Returns the fact of what was folded and fused; nothing for other models.

    An ML Program is compiled operation by operation: counts in its folder are those of the program in it, and
    Core ML fuses operations when it loads them. A compiled network has activations in the layers before them,
    and counts of the source's layers next to it (`metadata.json`, of newer compilers).
    """
    if model.container != "mlmodelc" or not model.kind.startswith("neuralNetwork"):
        return ()
    layers = {id(layer): layer for layer, _ in _ops(model)}
    found = [f"{count} {kind} fused into {into}" for (kind, into), count in _fused(model).most_common()]
    present = Counter(layer.type for layer in layers.values())
    for source, name in _FOLDED.items():
        gone = _histogram(model).get(source, 0) - present[name]
        if gone > 0:
            found.append(f"{gone} {source} folded into other layers")
    return (("compiled", "; ".join(found)),) if found else ()


def _ops(model: Model) -> Iterator[tuple[Layer, Op]]:
    for program in programs_of(model):
        for function in program.functions.values():
            for op in function.graph.walk():
                if op.layer is not None and op.constant is None:
                    yield op.layer, op


def _fused(model: Model) -> Counter[tuple[str, str]]:
    """Functions that end a layer of several operations, by the type of the layer."""
    by_layer: dict[int, list[tuple[Layer, Op]]] = {}
    for layer, op in _ops(model):
        by_layer.setdefault(id(layer), []).append((layer, op))
    ends = [listed[-1] for listed in by_layer.values() if len(listed) > 1]
    return Counter(
        (op.type, layer.type) for layer, op in ends if op.type in _FUSED and layer.type != "activation"
    )


def _histogram(model: Model) -> dict[str, int]:
    """The layers of the source by type; nothing where the folder does not say."""
    if model.source is None:
        return {}
    try:
        return dict(read_metadata_file(model.source / "metadata.json").histogram)
    except (CoremlscopeError, OSError):
        return {}
