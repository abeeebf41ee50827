"""What kernels do, in as many words as units have different speeds."""

from __future__ import annotations

from typing import Literal

from coremlscope.cost.latency.geometry import Geometry
from coremlscope.cost.latency.norms import over_maps
from coremlscope.ir import StateType, TensorType
from coremlscope.ops.view import BoundValue, OpView

__all__ = ["KINDS", "OPS_OF_KIND", "Kind", "kind_of", "moves_channels", "shape_of"]

Kind = Literal[
    "conv",
    "pointwise",
    "depthwise",
    "grouped",
    "linear",
    "matmul",
    "attention",
    "elementwise",
    "softmax",
    "norm",
    "map_norm",
    "reduce",
    "pool",
    "copy",
    "channels",
    "reshape",
    "layout",
    "resize",
    "recurrent",
    "other",
]

KINDS: tuple[Kind, ...] = (
    "conv", "pointwise", "depthwise", "grouped", "linear", "matmul", "attention", "elementwise",
    "softmax", "norm", "map_norm", "reduce", "pool", "copy", "channels", "reshape", "layout", "resize",
    "recurrent", "other",
)  # fmt: skip

OPS_OF_KIND: dict[Kind, str] = {
    "linear": "linear",
    "matmul": "matmul einsum",
    "attention": "scaled_dot_product_attention",
    "softmax": "softmax",
    "norm": "layer_norm l2_norm local_response_norm",
    "map_norm": "instance_norm",
    "reduce": "reduce_mean reduce_sum reduce_max reduce_min reduce_prod reduce_l1_norm reduce_l2_norm"
    " reduce_log_sum reduce_log_sum_exp reduce_sum_square reduce_argmax reduce_argmin cumsum",
    "pool": "max_pool avg_pool l2_pool",
    "copy": "concat split slice_by_index slice_by_size stack pad tile reverse slice_update"
    " write_state fill fill_like one_hot band_part reverse_sequence gather gather_along_axis gather_nd"
    " scatter scatter_along_axis scatter_nd",
    "reshape": "reshape reshape_like flatten2d",
    "layout": "transpose pixel_shuffle pixel_unshuffle space_to_depth depth_to_space batch_to_space"
    " space_to_batch sliding_windows squeeze expand_dims identity",
    "resize": "upsample_nearest_neighbor upsample_bilinear resize_nearest_neighbor resize_bilinear resize"
    " crop_resize crop resample affine",
    "recurrent": "lstm gru rnn",
    "elementwise": "batch_norm add sub mul real_div floor_div mod pow maximum minimum equal not_equal less"
    " less_equal greater greater_equal logical_and logical_or logical_xor logical_not select cast clip abs"
    " exp exp2 log sqrt rsqrt square inverse erf sign floor ceil round sin cos tan tanh sigmoid relu relu6"
    " gelu silu softplus softplus_parametric softsign sigmoid_hard leaky_relu prelu elu clamped_relu"
    " thresholded_relu linear_activation scaled_tanh threshold quantize dequantize acos asin atan atanh cosh"
    " sinh",
}
_KIND_OF_OP: dict[str, Kind] = {name: kind for kind, names in OPS_OF_KIND.items() for name in names.split()}


def kind_of(view: OpView, geometry: Geometry) -> Kind:
    """The kind of a kernel whose head is this operation."""
    if view.op.type in ("conv", "conv_quantized", "conv_transpose"):
        if geometry.groups > 1:
            return "depthwise" if geometry.in_channels == 1 else "grouped"
        return "conv" if geometry.taps > 1 else "pointwise"
    if view.op.type == "transpose" and moves_channels(view):
        return "channels"
    if view.op.type == "layer_norm" and over_maps(view):
        return "map_norm"
    kind = _KIND_OF_OP.get(view.op.type, "other")
    if kind == "copy" and (_cuts_rows(view) or (view.has("interleave") and view.flag("interleave"))):
        return "layout"
    return kind


def moves_channels(view: OpView) -> bool:
    """True where a transposition takes one axis from the front to the back, or the other way round."""
    shape = shape_of(view.bound("x"))
    if shape is None or not view.is_known("perm"):
        return False
    order = [axis % len(shape) for axis in view.integers("perm")]
    order = [axis for axis in order if shape[axis] != 1]
    kept = sorted(order)
    return order != kept and order in ([*kept[1:], *kept[:1]], [*kept[-1:], *kept[:-1]])


def _cuts_rows(view: OpView) -> bool:
    """True where rows get shorter or longer: what was whole is gathered piece by piece."""
    given = next((b for n in ("x", "values") for b in view.inputs.get(n, ()) if b.constant is None), None)
    before = shape_of(given) if given is not None else None
    after = shape_of(view.outputs[0]) if view.outputs else None
    return bool(before and after and len(before) > 2 and len(after) > 2 and before[-1] != after[-1])


def shape_of(value: BoundValue) -> tuple[int | None, ...] | None:
    """The shape of a tensor or of a state; None for anything else."""
    type_ = value.type.wrapped if isinstance(value.type, StateType) else value.type
    return type_.shape if isinstance(type_, TensorType) else None
