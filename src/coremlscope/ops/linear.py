"""Matrix products and attention."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from coremlscope.base.arrays import np
from coremlscope.model.ir import Shape, TensorType, ValueType
from coremlscope.ops.emit import BOOL, F32, I32, Lowering, Tensor, carry
from coremlscope.ops.infer import broadcast_shapes, first_known
from coremlscope.ops.spec import OpSpec, Work, moved
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import CannotInfer, CannotLower, OpView


def _swapped(shape: Shape) -> Shape:
    return (*shape[:-2], shape[-1], shape[-2])


def _transposed(op: Lowering, name: str) -> Tensor:
    """A parameter with its last two axes swapped; by a node only where it is not known before run time."""
    shape = op.view.shape(name)
    if op.view.bound(name).constant is not None:
        sizes = [d or 0 for d in _swapped(shape)]
        return op.derived(name, lambda array: np.swapaxes(array, -1, -2), sizes, "swapped")
    rank = len(shape)
    return op.transpose(op[name], [*range(rank - 2), rank - 1, rank - 2])


# linear


def _infer_linear(view: OpView) -> Sequence[ValueType]:
    x, weight = view.shape("x"), view.shape("weight")
    if not x or len(weight) != 2:
        raise CannotInfer(f"weights of rank {len(weight)} for a tensor of rank {len(x)}")
    if None not in (x[-1], weight[1]) and x[-1] != weight[1]:
        raise CannotInfer(f"weights for {weight[1]} features, but x has {x[-1]}")
    return [TensorType(view.type("x").dtype, (*x[:-1], weight[0]))]


def _has_bias(view: OpView) -> bool:
    """False where the bias is absent or all zero, as converters write for no bias."""
    if not view.has("bias"):
        return False
    return not view.is_known("bias") or bool(view.value("bias").any())


def _lower_linear(op: Lowering) -> Tensor:
    x, kind = op["x"], op["x"].dtype
    bias = op["bias"] if _has_bias(op.view) else None
    if len(op.view.shape("x")) == 2 and x.dtype == op["weight"].dtype == F32:
        return op.emit("Gemm", x, op["weight"], bias, transB=1)
    weight = _transposed(op, "weight")
    wide = F32 if F32 in (x.dtype, weight.dtype) else I32
    result = op.emit("MatMul", op.cast(x, wide), op.cast(weight, wide))
    if bias is not None:
        result = op.emit("Add", result, op.cast(bias, wide))
    return op.cast(result, kind)


def _linear_work(view: OpView) -> Work:
    """Two operations per input feature and result element, one for the bias."""
    per_element = 2 * (view.shape("weight")[1] or 0) + view.has("bias")
    return moved(view, per_element * (view.output_type().elements or 0))


# matmul


class _Product(msgspec.Struct, frozen=True):
    """Operands of a matrix product as matrices: vectors get an axis of one, transposes are applied."""

    x: Shape
    y: Shape
    x_is_vector: bool
    y_is_vector: bool

    @classmethod
    def of(cls, view: OpView) -> _Product:
        x, y = view.shape("x"), view.shape("y")
        if not x or not y:
            raise CannotInfer("a scalar in a matrix product")
        x_is_vector, y_is_vector = len(x) == 1, len(y) == 1
        if x_is_vector:
            x = (1, *x)
        elif view.flag("transpose_x", False):
            x = _swapped(x)
        if y_is_vector:
            y = (*y, 1)
        elif view.flag("transpose_y", False):
            y = _swapped(y)
        if None not in (x[-1], y[-2]) and x[-1] != y[-2]:
            raise CannotInfer(f"{x[-1]} columns of x, but {y[-2]} rows of y")
        return cls(x, y, x_is_vector, y_is_vector)

    @property
    def shape(self) -> Shape:
        """The result's shape."""
        batch = broadcast_shapes([self.x[:-2], self.y[:-2]])
        rows = () if self.x_is_vector else (self.x[-2],)
        columns = () if self.y_is_vector else (self.y[-1],)
        return (*batch, *rows, *columns)

    @property
    def is_plain(self) -> bool:
        """True for two matrices without batch axes."""
        return len(self.x) == len(self.y) == 2 and not (self.x_is_vector or self.y_is_vector)

    @property
    def depth(self) -> int | None:
        """How many products are summed for each element of the result."""
        return first_known(self.x[-1], self.y[-2])


def _infer_matmul(view: OpView) -> Sequence[ValueType]:
    # Where element types differ, one operand is a constant, which takes the type of the other.
    name = "y" if view.bound("x").constant is not None else "x"
    return [TensorType(view.type(name).dtype, _Product.of(view).shape)]


def _lower_matmul(op: Lowering) -> Tensor:
    product = _Product.of(op.view)
    if product.y_is_vector or (product.x_is_vector and len(product.y) > 2):
        raise CannotLower("a product with a vector, at which Core ML ends the app (expand it to a matrix)")
    swaps = {
        "x": op.view.flag("transpose_x", False) and not product.x_is_vector,
        "y": op.view.flag("transpose_y", False) and not product.y_is_vector,
    }
    x, y = op["x"], op["y"]
    kind = carry(op.view.output_type().dtype)
    at_run_time = [name for name in swaps if swaps[name] and op.view.bound(name).constant is None]
    if at_run_time and x.dtype == y.dtype == F32 and product.is_plain:
        return op.emit("Gemm", x, y, transA=int(swaps["x"]), transB=int(swaps["y"]))
    x, y = (_transposed(op, name) if swaps[name] else op[name] for name in ("x", "y"))
    wide = F32 if F32 in (x.dtype, y.dtype) else I32
    return op.cast(op.emit("MatMul", op.cast(x, wide), op.cast(y, wide)), kind)


def _matmul_work(view: OpView) -> Work:
    """Two operations per product summed for an element of the result; one in an outer product."""
    return moved(view, _summed_flops(_Product.of(view).depth or 0) * (view.output_type().elements or 0))


def _summed_flops(products: int) -> int:
    """Returns the operations of a sum of products: one product alone is not added to anything."""
    return 2 * products if products > 1 else products


# einsum


class _Einsum(msgspec.Struct, frozen=True):
    """An equation of two operands: the labels of each and of the result, and the size of each label."""

    operands: tuple[str, ...]
    result: str
    sizes: dict[str, int | None]

    @classmethod
    def of(cls, view: OpView) -> _Einsum:
        equation = view.text("equation").replace(" ", "")
        left, arrow, result = equation.partition("->")
        operands = tuple(left.split(","))
        types = view.types("values")
        if not arrow or len(operands) != len(types):
            raise CannotInfer(f"the equation {equation!r} of {len(types)} operands")
        sizes: dict[str, int | None] = {}
        for labels, type_ in zip(operands, types, strict=True):
            if type_.shape is None or len(type_.shape) != len(labels):
                raise CannotInfer(f"the equation {equation!r} with an operand of rank {type_.rank}")
            for label, size in zip(labels, type_.shape, strict=True):
                (sizes[label],) = broadcast_shapes([(size,), (sizes.get(label, 1),)])
        if not set(result) <= set(sizes):
            raise CannotInfer(f"the equation {equation!r} with a result of unknown labels")
        return cls(operands, result, sizes)

    @property
    def is_batched_product(self) -> bool:
        """True for `nchw,nwhu->nchu` and `chw,whu->chu`, the forms that Core ML documents."""
        labels = "".join(dict.fromkeys("".join(self.operands)))
        if len(labels) not in (4, 5):
            return False
        batch, (c, h, w, u) = labels[:-4], tuple(labels[-4:])
        forms = (f"{batch}{c}{h}{w}", f"{batch}{w}{h}{u}")
        return self.operands == forms and self.result == f"{batch}{c}{h}{u}"


def _infer_einsum(view: OpView) -> Sequence[ValueType]:
    equation = _Einsum.of(view)
    shape = tuple(equation.sizes[label] for label in equation.result)
    return [TensorType(view.types("values")[0].dtype, shape)]


def _lower_einsum(op: Lowering) -> Tensor:
    equation = _Einsum.of(op.view)
    values, kind = op.all("values"), carry(op.view.output_type().dtype)
    if equation.is_batched_product:
        # Products of matrices on the axes -3 and -1.
        perm = [0, 2, 1, 3] if len(equation.result) == 4 else [1, 0, 2]
        left, right = (op.transpose(value, perm) for value in values)
        return op.transpose(op.emit("MatMul", left, right), perm)
    text = f"{','.join(equation.operands)}->{equation.result}"
    return op.emit("Einsum", *values, dtype=kind, equation=text)


def _einsum_work(view: OpView) -> Work:
    """Two operations per combination of all labels; one where none is summed over."""
    equation = _Einsum.of(view)
    summed = math.prod(size or 0 for label, size in equation.sizes.items() if label not in equation.result)
    return moved(view, _summed_flops(summed) * (view.output_type().elements or 0))


# scaled_dot_product_attention


def _infer_attention(view: OpView) -> Sequence[ValueType]:
    query, key, value = view.shape("query"), view.shape("key"), view.shape("value")
    if not len(query) == len(key) == len(value) or len(query) < 3:
        raise CannotInfer(f"query, key and value of rank {len(query)}, {len(key)} and {len(value)}")
    for what, a, b in (("features", query[-1], key[-1]), ("steps", key[-2], value[-2])):
        if None not in (a, b) and a != b:
            raise CannotInfer(f"{a} and {b} {what}")
    batch = broadcast_shapes([query[:-2], key[:-2], value[:-2]])
    return [TensorType(view.type("query").dtype, (*batch, query[-2], value[-1]))]


def _lower_attention(op: Lowering) -> Tensor:
    features = op.view.shape("query")[-1]
    query = op["query"]
    if features is None:
        raise CannotInfer("a number of features that is not known before run time")
    # Scaling the query is cheaper than scaling the scores; ONNX Runtime fuses either into the product.
    scaled = op.emit("Mul", query, op.like(1 / math.sqrt(features), query))
    scores = op.emit("MatMul", scaled, _transposed(op, "key"))
    mask = op.get("attn_mask")
    if mask is not None and mask.dtype == BOOL:
        scores = op.emit("Where", mask, scores, op.like(-np.inf, scores), dtype=F32)
    elif mask is not None:
        scores = op.emit("Add", scores, mask)
    return op.emit("MatMul", op.emit("Softmax", scores, axis=-1), op["value"])


def _attention_work(view: OpView) -> Work:
    """Two matrix products; per score a softmax (5), a scaling and the mask, if any."""
    query, value = view.shape("query"), view.shape("value")
    batch = view.output_type().shape or ()
    scores = math.prod(d or 0 for d in batch[:-1]) * (value[-2] or 0)
    per_score = 2 * (query[-1] or 0) + 2 * (value[-1] or 0) + 6 + view.has("attn_mask")
    return moved(view, per_score * scores)


OPS: tuple[OpSpec, ...] = (
    OpSpec(
        name="linear",
        doc="x·weightᵀ + bias.",
        traits=Trait.LINEAR,
        infer=_infer_linear,
        lower=_lower_linear,
        work=_linear_work,
    ),
    OpSpec(
        name="matmul",
        doc="The product of matrices, batched.",
        traits=Trait.MATRIX_PRODUCT,
        infer=_infer_matmul,
        lower=_lower_matmul,
        work=_matmul_work,
    ),
    OpSpec(
        name="einsum",
        doc="The product of tensors by an equation.",
        traits=Trait.MATRIX_PRODUCT,
        infer=_infer_einsum,
        lower=_lower_einsum,
        work=_einsum_work,
    ),
    OpSpec(
        name="scaled_dot_product_attention",
        doc="softmax(query·keyᵀ / √features + mask)·value.",
        traits=Trait.ATTENTION,
        infer=_infer_attention,
        lower=_lower_attention,
        work=_attention_work,
    ),
)
