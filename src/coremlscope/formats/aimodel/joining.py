"""Operations that Core ML has as one: paddings, biases, transposed weights, limits and means of windows.

Core AI writes the padding and the bias of a convolution as operations of their own, a linear layer as a
product with a transposed weight, a clip as a minimum of a maximum, and a mean of windows as a sum that is
divided.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from coremlscope.formats.aimodel.bytecode import EncodedValue
from coremlscope.formats.aimodel.compression import COMPRESSED
from coremlscope.formats.aimodel.content import BlockContent, StoredOp
from coremlscope.formats.aimodel.dialect import EnumMember
from coremlscope.formats.aimodel.shaping import PADDINGS
from coremlscope.model.ir import Constant, Immediate, TensorType

_PRODUCTS = ("batch_matmul", "broadcasting_batch_matmul")
_CONVOLUTIONS = ("conv2d", "conv3d")
_MAX_POOLS, _SUM_POOLS = ("max_pool_2d", "max_pool_3d"), ("sum_pool_2d", "sum_pool_3d")
_ADDITIONS = ("add", "broadcasting_add")


@dataclass(slots=True, eq=False, kw_only=True)
class Joined:
    """Operands of neighbouring operations that are joined with an operation.

    Attributes:
        x: The first argument of the padding that is joined; None for none.
        padding: Its amounts, for the spatial axes.
        weight: The weight of a linear layer before its transposition.
        y: The second argument of a product before its transposition.
        bias: The bias.
        limits: The limits of a clip.
        is_mean: True for a mean of windows.
        follower: The operation that computed the joint result: the addition, minimum or division.
    """

    x: EncodedValue | None = None
    padding: Sequence[int] | None = None
    weight: EncodedValue | None = None
    y: EncodedValue | None = None
    bias: Constant | None = None
    limits: tuple[float, float] | None = None
    is_mean: bool = False
    follower: StoredOp | None = None


def join(
    body: BlockContent, constants: Mapping[EncodedValue, Constant], types: Mapping[EncodedValue, TensorType]
) -> tuple[dict[StoredOp, Joined], set[StoredOp]]:
    """Finds the operations to join.

    Args:
        body: The operations.
        constants: The constants among their arguments.
        types: The types of the values that are tensors.

    Returns:
        What is joined with operations, and the operations that are joined with others.
    """
    finder = _Finder(body, constants, types)
    for op in body.ops:
        finder.visit(op)
    finder.drop_transpositions()
    return finder.joined, finder.absorbed


class _Finder:
    def __init__(
        self,
        body: BlockContent,
        constants: Mapping[EncodedValue, Constant],
        types: Mapping[EncodedValue, TensorType],
    ) -> None:
        self.joined: dict[StoredOp, Joined] = {}
        self.absorbed: set[StoredOp] = set()
        self._constants = constants
        self._types = types
        self._makers = {value: op for op in body.ops for value in op.results}
        self._users: dict[EncodedValue, list[StoredOp]] = {}
        self._count_uses(body)

    def _count_uses(self, body: BlockContent) -> None:
        for op in body.ops:
            for value in op.operands:
                self._users.setdefault(value, []).append(op)
            if op.name in ("if", "while"):
                for block in op.blocks:
                    self._count_uses(block)

    def visit(self, op: StoredOp) -> None:
        """Finds what is joined with an operation."""
        if op in self.absorbed:
            return
        found = Joined()
        if op.name in _CONVOLUTIONS and len(op.operands) == 5:
            self._padding(op, found, is_allowed=lambda value: value == 0)
            self._bias(op, found, channel_axis=1)
        elif op.name in _PRODUCTS and len(op.operands) == 2:
            self._product(op, found)
        elif op.name in _MAX_POOLS and len(op.operands) == 5:
            self._padding(op, found, is_allowed=lambda value: value == -math.inf)
        elif op.name in _SUM_POOLS and len(op.operands) == 4:
            self._mean(op, found)
        elif op.name in ("broadcasting_maximum", "maximum"):
            self._limits(op, found)
        else:
            return
        self.joined[op] = found
        if found.follower is not None:
            self.absorbed.add(found.follower)

    def _single_user(self, op: StoredOp) -> StoredOp | None:
        users = self._users.get(op.results[0], []) if len(op.results) == 1 else []
        return users[0] if len(users) == 1 else None

    def _array(self, value: EncodedValue) -> np.ndarray | None:
        constant = self._constants.get(value)
        return None if constant is None or not constant.is_available else constant.numpy()

    def _scalar(self, value: EncodedValue) -> float | None:
        array = self._array(value)
        return None if array is None or array.size != 1 else float(array.reshape(-1)[0])

    def _padding(self, op: StoredOp, found: Joined, is_allowed: Callable[[float], bool]) -> None:
        pad = self._makers.get(op.operands[0])
        if pad is None or pad.name != "pad" or self._single_user(pad) is not op or len(pad.operands) != 3:
            return
        mode = pad.attributes.get("padding_mode")
        amounts, value = self._array(pad.operands[1]), self._scalar(pad.operands[2])
        is_constant = isinstance(mode, EnumMember) and PADDINGS.get(mode.number) == "constant"
        if not is_constant or amounts is None or value is None or not is_allowed(value):
            return
        flat = [int(amount) for amount in amounts.reshape(-1)]
        if len(flat) < 6 or any(flat[:4]):
            return
        found.x, found.padding = pad.operands[0], flat[4:]
        self.absorbed.add(pad)

    def _bias(self, op: StoredOp, found: Joined, channel_axis: int) -> None:
        """Finds an addition of one number per channel."""
        user, type_ = self._single_user(op), self._types.get(op.results[0])
        if user is None or user.name not in _ADDITIONS or type_ is None or type_.shape is None:
            return
        others = [value for value in user.operands if value is not op.results[0]]
        array = self._array(others[0]) if len(others) == 1 else None
        rank = len(type_.shape)
        axis = channel_axis % rank
        if array is None or array.ndim > rank or self._types.get(user.results[0]) != type_:
            return
        shape = [1] * (rank - array.ndim) + list(array.shape)
        if shape[axis] != type_.shape[axis] or any(size != 1 for i, size in enumerate(shape) if i != axis):
            return
        original = self._constants[others[0]]
        assert isinstance(original.type, TensorType)
        flat = TensorType(original.type.dtype, (shape[axis],))
        found.bias = Constant(flat, Immediate(array.reshape(-1)))
        found.follower = user

    def _product(self, op: StoredOp, found: Joined) -> None:
        """Finds the transposition of the second argument: a linear layer if it is a constant matrix."""
        transpose = self._makers.get(op.operands[1])
        if transpose is None or transpose.name != "transpose" or len(transpose.operands) != 2:
            return
        perm = self._array(transpose.operands[1])
        rank = 0 if perm is None else perm.size
        if perm is None or rank < 2 or perm.reshape(-1).tolist() != [*range(rank - 2), rank - 1, rank - 2]:
            return
        source = transpose.operands[0]
        maker = self._makers.get(source)
        is_weight = source in self._constants or (maker is not None and maker.name in COMPRESSED)
        if is_weight and rank == 2:
            found.weight = source
            self._bias(op, found, channel_axis=-1)
        elif self._single_user(transpose) is op:
            found.y = source
            self.absorbed.add(transpose)

    def drop_transpositions(self) -> None:
        """Drops transpositions of weights that are used only by linear layers."""
        for op in self.joined:
            if self.joined[op].weight is None:
                continue
            transpose = self._makers[op.operands[1]]
            users = self._users[op.operands[1]]
            if all(user in self.joined and self.joined[user].weight is not None for user in users):
                self.absorbed.add(transpose)

    def _limits(self, op: StoredOp, found: Joined) -> None:
        user = self._single_user(op)
        if user is None or user.name not in ("broadcasting_minimum", "minimum"):
            return
        lower = [self._scalar(value) for value in op.operands]
        upper = [self._scalar(value) for value in user.operands]
        type_ = self._types.get(user.results[0])
        if lower[0] is not None or lower[1] is None or upper[0] is not None or upper[1] is None:
            return
        same = type_ is not None and type_.dtype.is_float and self._types.get(op.operands[0]) == type_
        if not same or lower[1] > upper[1]:
            return
        found.limits, found.follower = (lower[1], upper[1]), user

    def _mean(self, op: StoredOp, found: Joined) -> None:
        user, size = self._single_user(op), self._array(op.operands[1])
        if user is None or user.name not in ("broadcasting_divide", "divide") or size is None:
            return
        divisor = self._scalar(user.operands[1])
        if user.operands[0] is not op.results[0] or divisor is None or divisor != math.prod(size.tolist()):
            return
        found.is_mean, found.follower = True, user
        self._padding(op, found, is_allowed=lambda value: value == 0)
