"""A lowered program: an ONNX graph, its weights, and where every value came from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import msgspec

from coremlscope.base.arrays import np
from coremlscope.base.errors import UsageError
from coremlscope.base.writing import open_draft
from coremlscope.model.ir import TensorType
from coremlscope.ops.emit import Emitter, NumpyType, Tensor, WeightSlot

if TYPE_CHECKING:
    import onnx

#: The domain of ONNX-ML, which has the operator of tree ensembles.
ML_DOMAIN = "ai.onnx.ml"
#: The name by which the graph refers to its weight file.
WEIGHTS_FILE = "weights.bin"
#: How results that a program declares as fp16 are carried: as they come out in float32, or each one rounded.
Precision = Literal["fp32", "fp16"]


def check_precision(precision: str) -> None:
    """Checks the name of a precision.

    Raises:
        UsageError: It is neither `fp32` nor `fp16`.
    """
    if precision not in get_args(Precision):
        raise UsageError(f"invalid precision {precision!r}", f"use one of {', '.join(get_args(Precision))}")


class Port(msgspec.Struct, frozen=True, kw_only=True):
    """An input or output of a lowered program.

    Attributes:
        name: The feature's name.
        value: The ONNX value's name.
        type: The type in the program; unknown dimensions are None.
        dtype: The element type in the ONNX graph, in which the engine takes and gives it.
        labels: What indices stand for: class labels, categories, items. Of a result: integers are indices of
            labels, as that of a classifier's predicted label; floats are numbers in the order of the labels,
            as its probabilities. Of an input likewise: a string or an integer is given as the index of its
            label, -1 where it has none, a dictionary as its numbers in the order of the labels, 0 where it
            holds none.
        holds_keys: A dictionary with any keys, in any order, is two ports of one name; this one holds its
            keys, or their indices, the other its numbers.
        is_closed: Of an input with labels: what is none of them is an error.
    """

    name: str
    value: str
    type: TensorType
    dtype: NumpyType
    labels: tuple[str | int, ...] | None = None
    holds_keys: bool = False
    is_closed: bool = False


def copy_out(emitter: Emitter, tensor: Tensor, stem: str, *, is_flat: bool = False) -> str:
    """A copy, in one dimension if `is_flat`, under a name of its own.

    A pass takes plain copies away again wherever it can.
    """
    from onnx import helper

    name = emitter.unique(stem)
    inputs = [tensor.name]
    if is_flat:
        inputs.append(emitter.array(np.array([-1], np.int64)).name)
    op_type = "Reshape" if is_flat else "Identity"
    emitter.nodes.append(helper.make_node(op_type, inputs, [name], f"output/{name}"))
    emitter.owners[name] = emitter.owners.get(tensor.name, "")
    return name


#: Key of the metadata of a node that does the work of others, too: the values that those made, one a line.
MERGED = "coremlscope.merged"


class StatePort(msgspec.Struct, frozen=True, kw_only=True):
    """A state: fed to one ONNX value, and read back from another where the program writes it.

    Attributes:
        name: The state's name.
        value: The ONNX input that takes the content.
        updated: The ONNX output that holds the new content; None where the program only reads the state.
    """

    name: str
    value: str
    type: TensorType
    dtype: NumpyType
    updated: str | None


class RangePort(msgspec.Struct, frozen=True):
    """Where a program that rounds to fp16 tells what its results were like.

    Attributes:
        value: The ONNX output, float64: a column of four numbers for each operation, over all elements of its
            fp16 results and all times that it ran. The largest finite magnitude before rounding, -1 where
            there was no finite element; and how many elements were infinite after rounding, how many were so
            before it, and how many were NaN.
        ops: Ids of the operations, in the order of the columns.
    """

    value: str
    ops: tuple[str, ...]


class OnnxProgram(msgspec.Struct, frozen=True, kw_only=True):
    """A function lowered to ONNX.

    Attributes:
        model: The ONNX model. Large initializers are external data in `WEIGHTS_FILE`.
        weights: What the weight file holds, in order.
        weights_bytes: The weight file's length.
        owners: The operation id that each ONNX value was made for.
        folded: Ids of operations that need nothing at run time: constants and what was computed from them.
        inputs: What the graph is fed, states excluded.
        outputs: What it gives, states excluded.
        states: Its states.
        ranges: What it tells about its fp16 results; None where it does not round them.
    """

    model: onnx.ModelProto
    weights: tuple[WeightSlot, ...]
    weights_bytes: int
    owners: Mapping[str, str]
    folded: frozenset[str]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    states: tuple[StatePort, ...] = ()
    ranges: RangePort | None = None

    def write_weights(self, path: Path) -> None:
        """Writes the weight file: each constant read, converted and written in turn.

        Raises:
            MissingWeightsError: A constant lies in a file that is absent.
            CorruptModelError: A constant cannot be computed from its data.
            OSError: The file cannot be written.
        """
        with open_draft(path) as file:
            for slot in self.weights:
                file.seek(slot.offset)
                file.write(slot.content().data)
            file.truncate(self.weights_bytes)
