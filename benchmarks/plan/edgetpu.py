"""The network of the M1's dump: the body of a model of the corpus, with the input conversion of the dump."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from msgspec.structs import replace

from coremlscope.formats import container
from coremlscope.model.ir import (
    ArrayFeature,
    DType,
    Function,
    Graph,
    Model,
    Op,
    Program,
    TensorType,
    Value,
    constant,
)

__all__ = ["CORPUS", "network"]

CORPUS = Path(__file__).parents[2].parent / "shared" / "corpus"


def network(corpus: Path = CORPUS) -> Model:
    """Returns MobilenetEdgeTPU with a float input that is scaled (one factor), shifted (three) and cast.

    The model of the corpus casts and transposes its input instead; everything after that is the same,
    operation for operation. The counts of the constants follow from the dump's figures: 150,529 and 150,531
    elements.
    """
    path = next(corpus.rglob("MobilenetEdgeTPU.mlpackage"))
    model = container.read(path)
    assert isinstance(model.content, Program)
    (name, function), *_ = model.content.functions.items()
    ops = function.graph.ops
    cut = next(index for index, op in enumerate(ops) if op.type == "transpose")
    image = Value("images", TensorType(DType.FP32, (1, 3, 224, 224)))
    scaled, shifted = Value("scaled", image.type), Value("shifted", image.type)
    shift = constant(np.full((1, 3, 1, 1), -1, np.float32))
    kept = [op for op in ops[:cut] if op.type == "const"]
    front = [
        Op(
            id="main/front/0",
            type="mul",
            inputs={"x": (image,), "y": (constant(np.float32(1 / 128)),)},
            outputs=(scaled,),
        ),
        Op(id="main/front/1", type="add", inputs={"x": (scaled,), "y": (shift,)}, outputs=(shifted,)),
        Op(
            id="main/front/2",
            type="cast",
            inputs={"x": (shifted,), "dtype": (constant("fp16"),)},
            outputs=ops[cut].outputs,
        ),
    ]
    graph = Graph(
        name=function.graph.name,
        inputs=(image,),
        ops=(*kept, *front, *ops[cut + 1 :]),
        outputs=function.graph.outputs,
    )
    content = Program(
        functions={name: Function(name=function.name, opset=function.opset, graph=graph)},
        version=model.content.version,
    )
    main = model.description.main
    (feature,) = main.inputs
    taken = replace(feature, name=image.name, type=ArrayFeature(dtype=DType.FP32, shape=(1, 3, 224, 224)))
    functions = {model.description.default: replace(main, inputs=(taken,))}
    return replace(model, content=content, description=replace(model.description, functions=functions))
