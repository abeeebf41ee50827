"""Compares planned costs of single operations with those of an M4, all digits of which are published.

751K/Apple-Neural-Engine-Microarchitecture-Study-M6 has the files in which Core ML notes its plans
(data/03_compile/opdispatch/ana, macOS 27.0.1): one operation a model (`iso`), or between two layers (`ctx`).
Each row has the costs in milliseconds on the Neural Engine (None where it does not run), BNNS, and the older
CPU backend.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from benchmarks.plan.agreement import Agreement
from coremlscope.cost.planned.prices import price
from coremlscope.cost.planned.rates import RateTable, rate_table
from coremlscope.devices import find_device
from coremlscope.ir import DType, TensorType
from coremlscope.placement.backend import Backend
from coremlscope.placement.rules.rule import Example, boolean, example_view, fp16, fp32, int32, tensor, weight

__all__ = ["SINGLES", "compare_singles"]

_MAP = fp16(1, 64, 32, 32)
_BACKENDS: tuple[Backend, ...] = ("ane", "bnns", "classic_cpu")
_CLOSE = 0.01

_Costs = tuple[float | None, float, float]
_DENSE_QUARTER: _Costs = (0.0011685701913809381, 0.025015970438152513, 0.028773832669640041)
_MEDIUM: _Costs = (0.0011714574858612597, 0.02161670114769609, 0.024863929998386294)
_BYTES: _Costs = (0.0035903033088235292, 0.004308364163942412, 0.004308364163942412)
_TWO_INPUTS: _Costs = (0.0053854549632352941, 0.006462546245913618, 0.006462546245913618)
_ONE_INTEGER: _Costs = (0.0035903580925043892, 0.0043084299043623939, 0.0043084299043623939)
_HALF: _Costs = (0.002692754873458077, 0.0032313059931668, 0.0032313059931668)


def _conv(x: TensorType, *kernel: int, pad: str = "same", **parameters: object) -> Example:
    return Example("conv", {"x": x, "weight": weight(*kernel), "pad_type": pad, **parameters})


def _up(x: TensorType, *kernel: int, pad: str = "valid") -> Example:
    strides = [2] * (len(kernel) - 2)
    return Example("conv_transpose", {"x": x, "weight": weight(*kernel), "strides": strides, "pad_type": pad})


def _linear(*shape: int, out: int) -> Example:
    return Example("linear", {"x": fp16(*shape), "weight": weight(out, shape[-1]), "bias": weight(out)})


def _recurrent(name: str, gates: int) -> Example:
    weights = {"weight_ih": weight(gates * 64, 64), "weight_hh": weight(gates * 64, 64)}
    state = {"x": fp16(16, 1, 64), "initial_h": weight(1, 64), "output_sequence": True}
    return Example(name, {**state, **weights})


def _pair(name: str, x: TensorType, y: TensorType, **parameters: object) -> Example:
    return Example(name, {"x": x, "y": y, **parameters})


def _unary(name: str, **parameters: object) -> Example:
    return Example(name, {"x": _MAP, **parameters})


def _pool(name: str, x: TensorType, *kernel: int, stride: int = 1, pad: str = "same") -> Example:
    strides = [stride] * len(kernel)
    return Example(name, {"x": x, "kernel_sizes": list(kernel), "strides": strides, "pad_type": pad})


_CONVOLUTIONS: Mapping[str, tuple[Example, _Costs]] = {
    "conv 3×3 dilated": (
        _conv(_MAP, 64, 64, 3, 3, dilations=[2, 2]),
        (0.0026357793431878345, 0.048637577582316203, 0.055943842496369169),
    ),
    "conv 7×7 stride 2": (
        _conv(_MAP, 64, 64, 7, 7, strides=[2, 2]),
        (0.0063622154864073294, 0.13619806127438591, 0.15665753342359576),
    ),
    "conv 1×31": (_conv(_MAP, 64, 64, 1, 31), (None, 0.34466448159232349, 0.39643947233726268)),
    "conv 1×9": (
        _conv(_MAP, 64, 64, 1, 9),
        (0.0046742807655237523, 0.10006388175261005, 0.11509533067856016),
    ),
    "conv 13×13": (
        _conv(_MAP, 64, 64, 13, 13),
        (0.087772605485946009, 1.8789773351323442, 2.1612345427418518),
    ),
    "conv 5×5 stride 5": (
        _conv(_MAP, 64, 64, 5, 5, pad="valid", strides=[5, 5]),
        (0.0010296013059327479, 0.018999053743092263, 0.021853063475144204),
    ),
    "conv 2×2 stride 2": (_conv(_MAP, 64, 64, 2, 2, pad="valid", strides=[2, 2]), _MEDIUM),
    "conv 3×3 stride 3": (
        _conv(_MAP, 64, 64, 3, 3, pad="valid", strides=[3, 3]),
        (0.0010296013059327479, 0.018999053743092263, 0.021853063475144204),
    ),
    "conv 8×8 stride 8": (_conv(_MAP, 64, 64, 8, 8, pad="valid", strides=[8, 8]), _MEDIUM),
    "conv of one dimension": (
        _conv(fp16(1, 64, 1024), 64, 64, 3),
        (0.0015580935885079173, 0.033354627250870017, 0.038365110226186716),
    ),
    "conv, weights computed": (
        Example("conv", {"x": _MAP, "weight": fp16(64, 64, 1, 1), "pad_type": "valid"}),
        _MEDIUM,
    ),
    "conv 2 groups": (
        _conv(_MAP, 64, 32, 3, 3, groups=2),
        (0.0023371403827618762, 0.050031940876305026, 0.057547665339280081),
    ),
    "conv 4 groups": (_conv(_MAP, 64, 16, 3, 3, groups=4), _DENSE_QUARTER),
    "conv 8 groups": (
        _conv(_MAP, 64, 8, 3, 3, groups=8),
        (0.0013178896715939172, 0.024318788791158102, 0.027971921248184584),
    ),
    "conv 16 groups": (
        _conv(_MAP, 64, 4, 3, 3, groups=16),
        (0.00065894483579695862, 0.012159394395579051, 0.013985960624092292),
    ),
    "conv 32 groups": (
        _conv(_MAP, 64, 2, 3, 3, groups=32),
        (0.0050071977852356305, 0.087106423179205861, 0.10019141465788491),
    ),
    "conv 256 channels": (
        _conv(fp16(1, 256, 16, 16), 256, 256, 3, 3),
        (0.018697123062095009, 0.4002555270104402, 0.46038132271424065),
    ),
    "conv 128 channels": (
        _conv(fp16(1, 128, 32, 64), 128, 128, 3, 3),
        (0.037394246124190018, 0.80051105402088041, 0.9207626454284813),
    ),
    "conv 64 channels 96×96": (
        _conv(fp16(1, 64, 96, 96), 64, 64, 3, 3),
        (0.04206852688971377, 0.90057493577349035, 1.0358579761070414),
    ),
    "conv 64 channels 16×16": (_conv(fp16(1, 64, 16, 16), 64, 64, 3, 3), _DENSE_QUARTER),
    "conv 32 channels 32×32": (_conv(fp16(1, 32, 32, 32), 32, 32, 3, 3), _DENSE_QUARTER),
    "conv 32 channels 32×64": (
        _conv(fp16(1, 32, 32, 64), 32, 32, 3, 3),
        (0.0023371403827618762, 0.050031940876305026, 0.057547665339280081),
    ),
    "conv 32 channels 32×2": (
        _conv(fp16(1, 32, 32, 2), 32, 32, 3, 3),
        (0.00016473620894923965, 0.0030398485988947627, 0.003496490156023073),
    ),
    "conv 16 channels 64×64": (_conv(fp16(1, 16, 64, 64), 16, 16, 3, 3), _DENSE_QUARTER),
    "conv 8 channels 128×64": (
        _conv(fp16(1, 8, 128, 64), 8, 8, 3, 3),
        (0.0013178896715939172, 0.024318788791158102, 0.027971921248184584),
    ),
    "conv 8 channels, batch 64": (
        _conv(fp16(64, 8, 16, 16), 8, 8, 3, 3),
        (0.0026357793431878345, 0.048637577582316203, 0.055943842496369169),
    ),
    "conv 4 channels": (
        _conv(fp16(1, 4, 32, 32), 4, 4, 3, 3),
        (4.1184052237309914e-05, 0.00075996214972369068, 0.00087412253900576826),
    ),
    "conv 1 channel": (
        _conv(fp16(1, 1, 32, 32), 1, 1, 3, 3),
        (3.9118732697153364e-05, 0.00068051893108754579, 0.00078274542701472583),
    ),
    "conv 64 channels 1×1": (
        _conv(fp16(1, 64, 1, 1), 64, 64, 3, 3),
        (0.00015647493078861345, 0.0027220757243501831, 0.0031309817080589033),
    ),
    "conv 64 channels 6×6": (
        _conv(fp16(1, 64, 6, 6), 64, 64, 3, 3),
        (0.00037065647013578926, 0.0068396593475132167, 0.0078671028510519138),
    ),
    "conv batch 64": (
        _conv(fp16(64, 64, 8, 8), 64, 64, 3, 3),
        (0.018697123062095009, 0.4002555270104402, 0.46038132271424065),
    ),
    "conv_transpose 2×2": (
        _up(_MAP, 64, 64, 2, 2),
        (0.0088271895869198348, 2.1256315741899439, 2.4449409137767182),
    ),
    "conv_transpose 3×3": (
        _up(_MAP, 64, 64, 3, 3, pad="same"),
        (0.019861176570569631, 4.7826710419273741, 5.501117055997617),
    ),
    "conv_transpose of one dimension": (
        _up(fp16(1, 64, 256), 64, 64, 4),
        (0.00044519906771112931, 0.079574429659702767, 0.091527982044104991),
    ),
    "conv_transpose of three dimensions": (
        _up(fp16(1, 16, 4, 8, 8), 16, 16, 2, 2, 2),
        (0.00022173338780943403, 0.039632400764365576, 0.045585921018075633),
    ),
}

_PRODUCTS: Mapping[str, tuple[Example, _Costs]] = {
    "linear 16×64→64": (
        _linear(16, 1, 64, out=64),
        (0.0012258781209570095, 0.0019040930842510889, 0.0021901232113136493),
    ),
    "linear 128×128→128": (
        _linear(1, 128, 128, out=128),
        (0.0072261680859473714, 0.18605159114664327, 0.21399998330265382),
    ),
    "linear 256×128→128": (
        _linear(1, 256, 128, out=128),
        (0.014452115653475324, 0.37209750462258717, 0.4279934360433954),
    ),
    "linear 128×256→256": (
        _linear(1, 128, 256, out=256),
        (0.028904231306950648, 0.74419500924517434, 0.85598687208679081),
    ),
    "linear 128×512→512": (
        _linear(1, 128, 512, out=512),
        (0.01268418926057841, 0.40003609769216664, 0.4601289096551554),
    ),
    "linear 64×1024→1024": (
        _linear(1, 64, 1024, out=1024),
        (0.02536837852115682, 0.80007219538433327, 0.92025781931031081),
    ),
    "matmul, batches": (
        _pair("matmul", fp16(1, 8, 128, 64), fp16(1, 8, 64, 128)),
        (0.0071806066176470585, 0.02223492703817807, 0.025575024390243905),
    ),
    "matmul, batches of one": (
        _pair("matmul", fp16(1, 8, 128, 64), fp16(1, 1, 64, 128)),
        (0.0056098489200367653, 0.02223492703817807, 0.025575024390243905),
    ),
    "matmul by a constant": (
        _pair("matmul", fp16(1, 128, 256), fp16(256, 512)),
        (0.0062830307904411763, 0.04446985407635614, 0.05115004878048781),
    ),
    "matmul, transposed": (
        _pair("matmul", fp16(1, 128, 256), fp16(1, 128, 256), transpose_x=False, transpose_y=True),
        (0.0022439395680147059, 0.011160891110960478, 0.012837463414634149),
    ),
    "matmul, long inner dimension": (
        _pair("matmul", fp16(1, 16, 16384), fp16(1, 16384, 16)),
        (0.014368225546444164, 0.017241871429527347, 0.017241871429527347),
    ),
    "attention with a mask": (
        Example(
            "scaled_dot_product_attention",
            {
                **dict.fromkeys(("query", "key", "value"), fp16(1, 8, 128, 64)),
                "attn_mask": fp16(1, 1, 128, 128),
            },
        ),
        (0.00762939453125, 0.0091552738483776253, 0.0091552738483776253),
    ),
    "gru": (_recurrent("gru", 3), (None, 0.034025518231274449, 0.039136780487804883)),
    "rnn": (_recurrent("rnn", 1), (None, 0.011341387039676154, 0.013045073170731707)),
}

_ELEMENTWISE: Mapping[str, tuple[Example, _Costs]] = {
    "mul": (
        _pair("mul", _MAP, _MAP),
        (0.0060963720930232558, 0.022790800444576553, 0.026214400000000002),
    ),
    "sub": (
        _pair("sub", _MAP, _MAP),
        (0.0072857181805073747, 0.012410832893147551, 0.014275168586413103),
    ),
    "sub of a channel": (
        _pair("sub", _MAP, fp16(1, 1, 32, 32)),
        (0.0036997787635389013, 0.0063023760785514901, 0.0072491090477879031),
    ),
    "add of a vector": (
        _pair("add", _MAP, fp16(1, 64, 1, 1)),
        (0.0036464165698340137, 0.0062114764235723825, 0.0071445545903678865),
    ),
    "add of two vectors": (
        _pair("add", fp16(1, 64, 32, 1), fp16(1, 1, 1, 32)),
        (0.00011561808636059067, 0.00019694925245473407, 0.00022653465774337197),
    ),
    "add of a batch": (
        _pair("add", fp16(4, 64, 32, 32), _MAP),
        (0.018214295451268438, 0.031027082232868878, 0.035687921466032758),
    ),
    "maximum": (_pair("maximum", _MAP, _MAP), _TWO_INPUTS),
    "pow": (_pair("pow", _MAP, _MAP), _TWO_INPUTS),
    "real_div": (_pair("real_div", _MAP, _MAP), _TWO_INPUTS),
    "greater": (Example("greater", {"x": _MAP, "y": 0.0}, outputs=(boolean(1, 64, 32, 32),)), _HALF),
    "select": (
        Example("select", {"cond": boolean(1, 64, 32, 32), "a": _MAP, "b": _MAP}),
        (0.0062830307904411763, 0.0075396372868992206, 0.0075396372868992206),
    ),
    **{
        name: (_unary(name), _BYTES)
        for name in ("silu", "tanh", "softplus", "relu6", "sigmoid", "exp", "square", "abs")
    },
    "gelu tanh": (
        _unary("gelu", mode="TANH_APPROXIMATION"),
        (0.0035903033088235292, 0.0067747043319448808, 0.0077923902439024405),
    ),
    "cast to fp32": (_unary("cast", dtype="fp32"), _TWO_INPUTS),
}

_STATISTICS: Mapping[str, tuple[Example, _Costs]] = {
    "batch_norm": (_unary("batch_norm", mean=weight(64), variance=weight(64)), _BYTES),
    "instance_norm": (
        _unary("instance_norm", gamma=weight(64), beta=weight(64)),
        (0.0035938368562389825, 0.0043126044210312527, 0.0043126044210312527),
    ),
    "layer_norm": (
        Example(
            "layer_norm", {"x": fp16(1, 128, 256), "axes": [2], "gamma": weight(256), "beta": weight(256)}
        ),
        (0.0017951516544117646, 0.002154182081971206, 0.002154182081971206),
    ),
    "reduce_sum": (
        _unary("reduce_sum", axes=[1], keep_dims=True),
        (0.0018232693786130233, 0.0021879233525269833, 0.0021879233525269833),
    ),
    "reduce_log_sum_exp": (
        _unary("reduce_log_sum_exp", axes=[1], keep_dims=True),
        (0.0018232693786130233, 0.0021879233525269833, 0.0021879233525269833),
    ),
    "max_pool 3×3": (
        _pool("max_pool", _MAP, 3, 3),
        (0.003590796361951267, 0.0043089558277222507, 0.0043089558277222507),
    ),
    "avg_pool 13×13": (
        _pool("avg_pool", _MAP, 13, 13),
        (0.0035995617508888245, 0.014678526052547242, 0.016883512195121953),
    ),
    "avg_pool of three dimensions": (
        _pool("avg_pool", fp16(1, 16, 8, 16, 16), 2, 2, 2, stride=2, pad="valid"),
        (0.0010102110750534955, 0.0012122533444686595, 0.0012122533444686595),
    ),
    "l2_pool": (
        _pool("l2_pool", _MAP, 2, 2, stride=2, pad="valid"),
        (0.0022443915333817985, 0.0026932699609288594, 0.0026932699609288594),
    ),
    "cumsum": (
        _unary("cumsum", axis=3, exclusive=False, reverse=False),
        (None, 0.0043084627745723844, 0.0043084627745723844),
    ),
}

_MOVING: Mapping[str, tuple[Example, _Costs]] = {
    "transpose of height and width": (
        _unary("transpose", perm=[0, 1, 3, 2]),
        (0.0038063330764528066, 0.0029965827630522943, 0.0034467250157882868),
    ),
    "transpose of channels and width": (
        _unary("transpose", perm=[0, 3, 2, 1]),
        (0.0038063330764528066, 0.0029965827630522943, 0.0034467250157882868),
    ),
    "transpose of batch and channels": (
        Example("transpose", {"x": fp16(8, 64, 16, 16), "perm": [1, 0, 2, 3]}),
        (0.011469447380066536, 0.13977920778612563, 0.16077662993248318),
    ),
    "transpose of rank 5": (
        Example("transpose", {"x": fp16(1, 4, 16, 16, 16), "perm": [0, 2, 1, 4, 3]}),
        (0.00095181557506843228, 0.00074932857649777319, 0.0008618916125076937),
    ),
    "concat of batches": (
        Example("concat", {"values": (_MAP, _MAP), "axis": 0, "interleave": False}),
        (0.0026214400000000001, 0.022790800444576553, 0.026214400000000002),
    ),
    "stack": (
        Example("stack", {"values": (_MAP, _MAP), "axis": 1}),
        (0.0053855097469161541, 0.0064626119863335999, 0.0064626119863335999),
    ),
    "split": (
        Example("split", {"x": _MAP, "axis": 1, "num_splits": 2}, outputs=(fp16(1, 32, 32, 32),) * 2),
        (0.0026928370489793666, 0.0032314046037967728, 0.0032314046037967728),
    ),
    "slice_by_index": (
        _unary("slice_by_index", begin=[0, 8, 0, 0], end=[1, 40, 32, 32]),
        (0.0026931657510645252, 0.0032317990463166654, 0.0032317990463166654),
    ),
    "slice_by_size": (
        _unary("slice_by_size", begin=[0, 0, 4, 4], size=[1, 64, 16, 16]),
        (0.0022443778374615837, 0.0026932535258238637, 0.0026932535258238637),
    ),
    "tile": (
        _unary("tile", reps=[1, 2, 1, 2]),
        (0.008975977406782262, 0.010771173371535958, 0.010771173371535958),
    ),
    "pad": (
        _unary("pad", pad=[1, 1, 1, 1], mode="constant", constant_val=0.0),
        (0.0038219561033389143, 0.0045863475298364318, 0.0045863475298364318),
    ),
    "reverse": (_unary("reverse", axes=[3]), _ONE_INTEGER),
    "pixel_shuffle": (_unary("pixel_shuffle", upscale_factor=2), _ONE_INTEGER),
    "space_to_depth": (_unary("space_to_depth", block_size=2), _ONE_INTEGER),
    "upsample_bilinear": (
        _unary("upsample_bilinear", scale_factor_height=2, scale_factor_width=2, align_corners=False),
        (0.0033051344335214804, 0.49963510263594357, 0.57468949507017242),
    ),
    "upsample_nearest_neighbor": (
        _unary("upsample_nearest_neighbor", scale_factor_height=3, scale_factor_width=3),
        (0.017951626111479366, 0.021541952300552024, 0.021541952300552024),
    ),
    "resize_bilinear": (
        _unary("resize_bilinear", target_size_height=48, target_size_width=48),
        (0.0058343524441999547, 0.0070012232472463831, 0.0070012232472463831),
    ),
    "resample": (
        Example(
            "resample",
            {
                "x": _MAP,
                "coordinates": fp16(1, 32, 32, 2),
                "padding_value": 0.0,
                "align_corners": True,
                "sampling_mode": "bilinear",
                "padding_mode": "constant",
                "coordinates_mode": "normalized_minus_one_to_one",
            },
        ),
        (0.0036464428857845418, 0.0043757316593189986, 0.0043757316593189986),
    ),
    "topk of channels": (
        _unary("topk", k=4, axis=1, ascending=False, output_indices_dtype="uint16"),
        (0.0019074992879348643, 0.0022889992482493572, 0.0022889992482493572),
    ),
    "gather": (
        _unary("gather", indices=tensor(DType.UINT16, 32), axis=1, batch_dims=0, validate_indices=False),
        (0.0026937272837933373, 0.0057007430112889449, 0.0065571000000000006),
    ),
    "gather of words": (
        Example(
            "gather",
            {
                "x": fp16(32000, 256),
                "indices": tensor(DType.INT16, 1, 64),
                "axis": 0,
                "batch_dims": 0,
                "validate_indices": False,
            },
        ),
        (None, 0.71221833887329444, 0.81920670000000007),
    ),
    "gather_along_axis": (
        _unary("gather_along_axis", indices=tensor(DType.INT16, 1, 64, 32, 32), axis=3),
        (0.0053855234428363688, 0.0064626284214385947, 0.0064626284214385947),
    ),
    "gather_nd": (
        _unary("gather_nd", indices=tensor(DType.INT16, 8, 2), batch_dims=0),
        (0.0020200523602611881, 0.0024240629411024406, 0.0024240629411024406),
    ),
    "scatter_along_axis": (
        Example(
            "scatter_along_axis",
            {"data": _MAP, "indices": int32(1, 64, 32, 32), "updates": _MAP, "axis": 3, "mode": "add"},
        ),
        (None, 0.010770992585381006, 0.010770992585381006),
    ),
    "one_hot": (
        Example(
            "one_hot",
            {"indices": int32(1, 64), "one_hot_vector_size": 128, "axis": -1, "on_value": 1, "off_value": 0},
            outputs=(int32(1, 64, 128),),
        ),
        (None, 0.00054301586905157961, 0.00054301586905157961),
    ),
    "argsort": (
        Example("argsort", {"x": _MAP, "axis": 3, "ascending": False}, outputs=(int32(1, 64, 32, 32),)),
        (None, 0.0064626284214385947, 0.0064626284214385947),
    ),
    "cast from fp32": (
        Example("cast", {"x": fp32(1, 64, 32, 32), "dtype": "fp16"}),
        _TWO_INPUTS,
    ),
}

#: By name: the operation and its published costs.
SINGLES: Mapping[str, tuple[Example, _Costs]] = {
    **_CONVOLUTIONS,
    **_PRODUCTS,
    **_ELEMENTWISE,
    **_STATISTICS,
    **_MOVING,
}


def compare_singles(rates: RateTable | None = None) -> list[Agreement]:
    """Compares planned costs of single operations on each backend.

    Args:
        rates: The rates behind our costs; by default those of the M4.
    """
    table = rate_table(find_device("m4", "27")) if rates is None else rates
    found = Agreement("M4 · planned cost of single operations within 1 %")
    for name, (example, published) in SINGLES.items():
        prices = price(example_view(example), table)
        for backend, ms in zip(_BACKENDS, published, strict=True):
            if ms is not None:
                ours = prices[backend].ms
                text = f"{name} on {backend}: {ms * 1e3:.5g} µs, ours {ours * 1e3:.5g} µs"
                found.count(math.isclose(ours, ms, rel_tol=_CLOSE), text)
    return [found]
