"""A model's structure as coremltools' classes: functions, blocks, operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coremlscope.model import ir
from coremlscope.runtime.execution.wiring import stage_names

#: The layer types of neural networks that Core ML's compiler renames. All other types keep the names of the
#: model file. (Source: compiled models beside their `.mlmodel` files, and coremltools' tests.)
_LAYER_TYPES = {
    "batchnorm": "batchnorm",
    "innerProduct": "inner_product",
    "padding": "general_padding",
    "permute": "transpose",
    "pooling": "pool",
    "softmaxND": "softmax_nd",
    "add": "elementwise",
    "addBroadcastable": "elementwise",
    "average": "elementwise",
    "divideBroadcastable": "elementwise",
    "max": "elementwise",
    "maxBroadcastable": "elementwise",
    "min": "elementwise",
    "minBroadcastable": "elementwise",
    "multiply": "elementwise",
    "multiplyBroadcastable": "elementwise",
    "powBroadcastable": "elementwise",
    "subtractBroadcastable": "elementwise",
    "unary": "elementwise",
}


def model_structure(model: ir.Model) -> Any:
    """The structure of a model as coremltools' `MLModelStructure`.

    All parts of a classical model's structure are None, as on a Mac.
    """
    from coremltools.models.compute_plan import MLModelStructure

    content = model.content
    return MLModelStructure(
        neuralnetwork=_network(content) if content.is_network else None,
        program=_program(content) if content.is_typed else None,
        pipeline=_pipeline(content) if content.models else None,
    )


def _network(program: ir.Content) -> Any:
    from coremltools.models.compute_plan import (
        MLModelStructureNeuralNetwork,
        MLModelStructureNeuralNetworkLayer,
    )

    (function,) = program.functions.values()
    layers = [
        MLModelStructureNeuralNetworkLayer(
            name=layer.name,
            type=_LAYER_TYPES.get(layer.type, layer.type),
            input_names=list(layer.inputs),
            output_names=list(layer.outputs),
            __proxy__=layer,
        )
        for layer in function.layers
    ]
    return MLModelStructureNeuralNetwork(layers=layers)


def _program(program: ir.Content) -> Any:
    from coremltools.models.compute_plan import MLModelStructureProgram, MLModelStructureProgramFunction

    functions = {
        name: MLModelStructureProgramFunction(
            inputs=_named_types(function.graph.inputs), block=_block(function.graph)
        )
        for name, function in program.functions.items()
    }
    return MLModelStructureProgram(functions=functions)


def _pipeline(pipeline: ir.Content) -> Any:
    from coremltools.models.compute_plan import MLModelStructurePipeline

    structures = map(model_structure, pipeline.models)
    return MLModelStructurePipeline(sub_models=list(zip(stage_names(pipeline), structures, strict=True)))


def _block(graph: ir.Graph) -> Any:
    from coremltools.models.compute_plan import MLModelStructureProgramBlock

    return MLModelStructureProgramBlock(
        inputs=_named_types(graph.inputs),
        operations=[_operation(op) for op in graph.ops],
        output_names=[value.name for value in graph.outputs],
    )


def _operation(op: ir.Op) -> Any:
    from coremltools.models.compute_plan import (
        MLModelStructureProgramArgument,
        MLModelStructureProgramOperation,
    )

    return MLModelStructureProgramOperation(
        inputs={
            name: MLModelStructureProgramArgument(bindings=[_binding(argument) for argument in arguments])
            for name, arguments in op.inputs.items()
        },
        operator_name=op.type,
        outputs=_named_types(op.outputs),
        blocks=[_block(block) for block in op.blocks],
        __proxy__=op,
    )


def _binding(argument: ir.Argument) -> Any:
    from coremltools.models.compute_plan import MLModelStructureProgramBinding, MLModelStructureProgramValue

    if isinstance(argument, ir.Value):
        return MLModelStructureProgramBinding(name=argument.name, value=None)
    return MLModelStructureProgramBinding(name=None, value=MLModelStructureProgramValue())


def _named_types(values: Sequence[ir.Value]) -> list[Any]:
    from coremltools.models.compute_plan import (
        MLModelStructureProgramNamedValueType,
        MLModelStructureProgramValueType,
    )

    return [
        MLModelStructureProgramNamedValueType(name=value.name, type=MLModelStructureProgramValueType())
        for value in values
    ]
