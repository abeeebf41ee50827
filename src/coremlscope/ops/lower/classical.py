"""From a classical model to an ONNX program.

Everything is computed in float64, as in Core ML. Strings, dictionaries and sequences become indices and
numbers; see `Port.labels`.
"""

from __future__ import annotations

from coremlscope.model.ir import Classical
from coremlscope.ops.bind import BoundFunction
from coremlscope.ops.classical import classical_types
from coremlscope.ops.classical.interface import Interface
from coremlscope.ops.lower.program import finish
from coremlscope.ops.program import OnnxProgram


def lower_classical(content: Classical, bound: BoundFunction) -> OnnxProgram:
    """Lowers a classical model.

    Args:
        content: Its parameters.
        bound: The model seen as a function of one operation.

    Raises:
        CorruptModelError: The parameters do not fit the features.
        UnsupportedModelError: A form of the model cannot be run.
    """
    interface = Interface(content.kind, bound)
    classical_types()[content.kind].lower(content, interface)
    return finish(interface.emitter, interface.taken, interface.given())
