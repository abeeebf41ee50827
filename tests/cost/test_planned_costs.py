"""Planned costs against published ones, to the last bit."""

from __future__ import annotations

import pytest

from coremlscope.devices import find_device
from coremlscope.model.ir import DType
from coremlscope.planning.cost.planned.prices import PlannedCosts, price
from coremlscope.planning.cost.planned.rates import rate_table
from coremlscope.planning.patterns.rule import (
    Example,
    boolean,
    example_view,
    fp16,
    fp32,
    int32,
    tensor,
    weight,
)

M1, M4 = rate_table(find_device("m1", "14.5")), rate_table(find_device("m4", "27"))
M1_MAX = rate_table(find_device("m1-max", "27"))
MAP = fp16(1, 64, 32, 32)
BACKENDS = ("ane", "bnns", "classic_cpu", "mps_graph")


def conv(x, *kernel, **parameters) -> Example:
    arguments = {"x": x, "weight": weight(*kernel), "pad_type": "same", **parameters}
    return Example("conv", arguments)


def biased(channels: int):
    return weight(channels)


#: Published on an M4 with macOS 27.0.1: Neural Engine, BNNS, the older CPU backend; None where it does not
#: run.
ON_M4 = [
    (conv(MAP, 64, 64, 3, 3), 0.0046742807655237523, 0.10006388175261005, 0.11509533067856016),
    (conv(MAP, 64, 64, 1, 1), 0.0011714574858612597, 0.02161670114769609, 0.024863929998386294),
    (conv(MAP, 64, 1, 3, 3, groups=64), 0.0025035988926178153, 0.04355321158960293, 0.050095707328942453),
    (conv(MAP, 64, 64, 17, 17), None, 3.2131624251671442, 3.69583895178932),
    (conv(MAP, 64, 64, 1, 16), None, 0.17789134533797343, 0.20461392120632915),
    (Example("relu", {"x": MAP}), 0.0026214400000000001, 0.0026214400000000001, 0.0026214400000000001),
    (Example("add", {"x": MAP, "y": MAP}), 0.0072857181805073747, 0.012410832893147551, 0.014275168586413103),
    (
        Example("gelu", {"x": MAP, "mode": "EXACT"}),
        *(0.0035903033088235292, 0.0067747043319448808, 0.0077923902439024405),
    ),
    (
        Example("concat", {"values": (MAP, MAP), "axis": 1, "interleave": False}),
        *(0.0026214400000000001, 0.022790800444576553, 0.026214400000000002),
    ),
    (
        Example("linear", {"x": fp16(1, 128, 256), "weight": weight(512, 256), "bias": weight(512)}),
        *(0.0031711198941040031, 0.10001131343048995, 0.11503486027244202),
    ),
    (
        Example("matmul", {"x": fp16(1, 128, 256), "y": fp16(1, 256, 128)}),
        *(0.0022439395680147059, 0.011117463519089035, 0.012787512195121952),
    ),
    (
        Example("matmul", {"x": fp16(1, 16, 40000), "y": fp16(1, 40000, 16)}),
        *(None, 0.042082283562257815, 0.042082283562257815),
    ),
    (
        Example("max_pool", {"x": MAP, "kernel_sizes": [15, 15], "strides": [1, 1], "pad_type": "same"}),
        *(None, 0.019542416342148695, 0.022478048780487807),
    ),
    (
        Example("avg_pool", {"x": MAP, "kernel_sizes": [2, 2], "strides": [2, 2], "pad_type": "valid"}),
        *(0.0022441587027381446, 0.0026929905641439353, 0.0026929905641439353),
    ),
    (
        Example("softmax", {"x": MAP, "axis": 1}),
        *(0.0035903580925043892, 0.0043084299043623939, 0.0043084299043623939),
    ),
    (
        Example("reshape", {"x": MAP, "shape": [1, 64, 1024]}),
        *(0.0035904676598661083, 0.0043085613852023577, 0.0043085613852023577),
    ),
    (
        Example("cumsum", {"x": MAP, "axis": 1, "exclusive": False, "reverse": False}),
        *(None, 0.0043084627745723844, 0.0043084627745723844),
    ),
    (
        Example("cast", {"x": MAP, "dtype": "int8"}),
        *(0.002692727481617647, 0.003231273122956809, 0.003231273122956809),
    ),
    (
        Example(
            "scaled_dot_product_attention", dict.fromkeys(("query", "key", "value"), fp16(1, 8, 128, 64))
        ),
        *(0.0071806066176470585, 0.008616728327884824, 0.008616728327884824),
    ),
    (
        Example("greater_equal", {"x": int32(1, 64), "y": 0}),
        *(None, 5.3249740185445459e-06, 5.3249740185445459e-06),
    ),
    (Example("add", {"x": int32(1, 64), "y": 1000}), None, 6.1546641392104396e-06, 7.0792080544803741e-06),
    (
        Example("select", {"cond": boolean(1, 64), "a": int32(1, 64), "b": int32(1, 64)}),
        *(None, 1.3674007356262536e-05, 1.3674007356262536e-05),
    ),
    (
        Example(
            "gather",
            {
                "x": fp16(1000, 256),
                "indices": tensor(DType.INT16, 1, 64),
                "axis": 0,
                "batch_dims": 0,
                "validate_indices": False,
            },
        ),
        *(None, 0.022262466039433992, 0.0256067),
    ),
]


def name_of(example: object) -> str:
    return example.type if isinstance(example, Example) else ""


@pytest.mark.parametrize(("example", "ane", "bnns", "classic"), ON_M4, ids=name_of)
def test_single_operations_on_an_m4(example: Example, ane: float | None, bnns: float, classic: float) -> None:
    prices = price(example_view(example), M4)
    if ane is not None:
        assert prices["ane"].ms == pytest.approx(ane, rel=1e-13)
    assert prices["bnns"].ms == pytest.approx(bnns, rel=1e-13)
    assert prices["classic_cpu"].ms == pytest.approx(classic, rel=1e-13)


def test_the_only_published_recurrent_layer() -> None:
    arguments = {"x": fp16(16, 1, 64), "initial_h": weight(1, 64), "initial_c": weight(1, 64)}
    weights = {"weight_ih": weight(256, 64), "weight_hh": weight(256, 64), "output_sequence": True}
    prices = price(example_view(Example("lstm", arguments | weights)), M4)
    assert prices["classic_cpu"].ms == pytest.approx(548.43507929840905, rel=1e-9)
    assert prices["bnns"].ms == pytest.approx(476.80945305249844, rel=1e-6)
    assert prices["bnns"].basis == "fitted"


@pytest.mark.parametrize(
    ("name", "gates", "closed"),
    [("lstm", 4, {"ane", "bnns", "classic_cpu"}), ("gru", 3, {"ane"}), ("rnn", 1, {"ane"})],
)
def test_costs_of_recurrent_layers_are_open_where_none_is_published(
    name: str, gates: int, closed: set[str]
) -> None:
    weights = {"weight_ih": weight(gates * 64, 64), "weight_hh": weight(gates * 64, 64)}
    arguments = {"x": fp16(16, 1, 64), "initial_h": weight(1, 64), "output_sequence": True, **weights}
    prices = price(example_view(Example(name, arguments)), M4)
    assert {backend for backend, cost in prices.items() if not cost.is_open} == closed
    gpu, cpu = prices["mps_graph"], prices["bnns"]
    assert (gpu.basis, gpu.ms) == ("assumed", gpu.low)
    assert gpu.high >= cpu.ms > 1e4 * gpu.low
    assert "none is published" in gpu.rate.note


#: Published on an M1 with macOS 14.5, all four backends.
ON_M1 = [
    (
        conv(fp16(1, 3, 224, 224), 32, 3, 3, 3, strides=[2, 2], bias=biased(32)),
        *(0.003691335258848058, 0.07405929443213365, 0.08518437120859405, 0.02992088472374345),
    ),
    (
        conv(fp16(1, 32, 112, 112), 16, 32, 1, 1, bias=biased(16)),
        *(0.02986836406214006, 0.4158066260789657, 0.47826845987543, 0.1143662513352442),
    ),
    (
        conv(fp16(1, 32, 56, 56), 128, 32, 3, 3, bias=biased(128)),
        *(0.01999734690777815, 0.3176245353107378, 0.3653376274215279, 0.1473130580229167),
    ),
    (
        conv(fp16(1, 768, 14, 14), 768, 1, 5, 5, strides=[2, 2], groups=768, bias=biased(768)),
        *(0.004394095866834067, 0.06117155172123246, 0.07036064842398154, 0.01682503505220419),
    ),
    (Example("relu", {"x": fp16(1, 32, 112, 112)}), *(0.01605632,) * 4),
    (
        Example("add", {"x": fp16(1, 32, 56, 56), "y": fp16(1, 32, 56, 56)}),
        *(0.01218252417501707, 0.02757825818742941, 0.0317210231178391, 0.0196621892818367),
    ),
    (
        Example("add", {"x": fp32(1, 3, 224, 224), "y": weight(1, 3, 1, 1, dtype=DType.FP32)}),
        *(None, 0.02068410586342044, 0.02379124148473093, 0.01474693585969468),
    ),
    (
        Example("mul", {"x": fp32(1, 3, 224, 224), "y": 0.5}),
        *(None, 0.02617398376557666, 0.03010580000000001, 0.0150529),
    ),
    (
        Example(
            "avg_pool",
            {"x": fp16(1, 1280, 7, 7), "kernel_sizes": [7, 7], "strides": [1, 1], "pad_type": "valid"},
        ),
        *(0.001755762187873616, 0.002106914720004125, 0.002106914720004125, 0.001755762187873616),
    ),
    (
        Example("transpose", {"x": fp16(1, 1001, 1, 1), "perm": [0, 2, 3, 1]}),
        *(6.479396405050814e-05, 6.891392668743726e-05, 7.926607160761697e-05, 5.680232466005728e-05),
    ),
    (
        Example("squeeze", {"x": fp16(1, 1, 1, 1001), "axes": [1, 2]}),
        *(5.494803190231323e-05, 6.593764124197753e-05, 6.593764124197753e-05, 5.494803190231323e-05),
    ),
    (
        Example("tensor_buffer_to_tensor", {"input": fp32(1, 3, 224, 224)}, outputs=(fp32(1, 3, 224, 224),)),
        *(None, 0.009895773939055228, 0.009895773939055228, 0.008246477912454043),
    ),
]


@pytest.mark.parametrize(("example", "ane", "bnns", "classic", "gpu"), ON_M1, ids=name_of)
def test_operations_of_a_network_on_an_m1(
    example: Example, ane: float | None, bnns: float, classic: float, gpu: float
) -> None:
    prices = price(example_view(example), M1)
    published = dict(zip(BACKENDS, (ane, bnns, classic, gpu), strict=True))
    for backend, ms in published.items():
        if ms is not None:
            assert prices[backend].ms == pytest.approx(ms, rel=1e-12), backend
            assert prices[backend].basis == "recovered"


def test_inputs_are_free_on_later_systems() -> None:
    entrance = example_view(Example("tensor_buffer_to_tensor", {"input": MAP}, outputs=(MAP,)))
    assert {known.ms for known in price(entrance, M4).values()} == {0.0}


def test_slices_cost_what_they_read_and_write() -> None:
    # 7.388427 µs: bytes of both tensors, of begin, end and end_mask (jvcleave/DepthStudies).
    half = {"x": fp16(1, 6, 785, 32), "begin": [0] * 4, "end": [1, 6, 785, 16]}
    half["end_mask"] = [True, True, True, False]
    cost = price(example_view(Example("slice_by_index", half)), M1_MAX)["ane"]
    assert cost.ms == pytest.approx(452_196 / (57 * 2**30) * 1e3, rel=1e-9)


def test_unknown_operations_are_priced_by_their_bytes() -> None:
    view = example_view(Example("an_op_of_next_year", {"x": fp16(1, 500)}, outputs=(fp16(1, 500),)))
    prices = price(view, M4)
    assert prices["ane"].ms == pytest.approx(2000 / (68 * 2**30) * 1e3)
    assert {known.basis for known in prices.values()} == {"assumed"}


def test_unknown_shapes_give_lower_bounds() -> None:
    view = example_view(Example("relu", {"x": fp16(None, 64)}))
    prices = price(view, M4)
    assert prices["ane"].ms > 0
    assert not any(known.is_complete for known in prices.values())
    weights = example_view(Example("conv", {"x": fp16(1, 8, None, None), "weight": weight(8, 8, 3, 3)}))
    assert not price(weights, M4)["bnns"].is_complete


def test_computed_weights_are_priced_too() -> None:
    view = example_view(Example("conv", {"x": MAP, "weight": fp16(64, 64, 3, 3), "pad_type": "same"}))
    assert price(view, M4) == price(example_view(conv(MAP, 64, 64, 3, 3)), M4)


@pytest.mark.parametrize(
    "example",
    [
        Example("conv", {"x": MAP}, outputs=(MAP,)),
        Example("conv", {"x": MAP, "weight": weight(4)}, outputs=(MAP,)),
        Example("linear", {"x": MAP, "weight": weight()}, outputs=(MAP,)),
        Example("lstm", {"x": fp16(), "weight_ih": weight(2, 2)}, outputs=(MAP,)),
        Example("max_pool", {"x": MAP, "kernel_sizes": "wide"}, outputs=(MAP,)),
        Example("matmul", {"x": fp16(), "y": fp16()}, outputs=(fp16(),)),
    ],
    ids=name_of,
)
def test_damaged_operations_still_have_a_price(example: Example) -> None:
    assert set(price(example_view(example), M4)) == set(BACKENDS)


@pytest.mark.parametrize(
    ("example", "counted"),
    [
        # 79 and 14 bytes, in plans of an M4 Max on both CPU and GPU.
        (
            Example(
                "topk",
                {"x": fp16(1, 32), "k": 2, "axis": -1, "ascending": False, "sort": True}
                | {"return_indices": True, "output_indices_dtype": "uint16"},
            ),
            79,
        ),
        (Example("stack", {"values": (fp16(1),) * 4, "axis": 1}, outputs=(fp16(1, 4),)), 14),
        (Example("split", {"x": fp16(1, 8), "num_splits": 2, "axis": 1}, outputs=(fp16(1, 4),) * 2), 32),
        (
            Example(
                "einsum", {"values": (fp16(1, 4, 1, 8), fp16(1, 8, 1, 4)), "equation": "bchq,bkhc->bkhq"}
            ),
            64 + 64 + 128,
        ),
    ],
    ids=["topk", "stack", "split", "einsum"],
)
def test_one_value_of_several_counts(example: Example, counted: int) -> None:
    cost = price(example_view(example), M4)["ane"]
    assert cost.ms == pytest.approx(counted / 73.014444032e9 * 1e3, rel=1e-9)


def linear(rows: int, width: int, out: int, bias: bool = False) -> Example:
    added = {"bias": weight(out)} if bias else {}
    return Example("linear", {"x": fp16(rows, width), "weight": weight(out, width), **added})


def test_linear_counts_a_square_of_its_input_on_every_chip() -> None:
    """Published for an M1 Max; BERT's layers of an M4 Pro have the same rates."""
    m1_max, m4_pro = (rate_table(find_device(chip, "27")) for chip in ("m1-max", "m4-pro"))
    for out in (1152, 1536):
        wide = price(example_view(linear(769, 384, out)), m1_max)
        assert wide["ane"].ms * 1e3 == pytest.approx(17.131, rel=1e-4)
        assert wide["mps_graph"].ms * 1e3 == pytest.approx(34.3382, rel=1e-4)
    assert price(example_view(linear(769, 1536, 384)), m1_max)["ane"].ms * 1e3 == pytest.approx(
        685.83, rel=1e-4
    )
    rates = [
        2 * 2048 * 768**2 / price(example_view(linear(2048, 768, 768)), table)["ane"].ms / 1e6
        for table in (m1_max, m4_pro)
    ]
    assert rates[0] == pytest.approx(rates[1], rel=1e-3)


def test_small_linear_layers_on_an_m4() -> None:
    """0.0072 ms on the Neural Engine and 0.186 ms on BNNS are published for 128 rows of 128 elements."""
    prices = price(example_view(linear(128, 128, 128)), M4)
    assert prices["ane"].ms == pytest.approx(0.0072, rel=0.01)
    assert prices["bnns"].ms == pytest.approx(0.186, rel=0.01)


M4_MAX = rate_table(find_device("m4-max", "26"))


@pytest.mark.parametrize(
    ("width", "cpu_us", "gpu_us"), [(1024, 36.506722, 12.930993), (768, 23.125101, 7.287216)]
)
def test_linear_layers_of_few_rows_on_an_m4_max(width: int, cpu_us: float, gpu_us: float) -> None:
    """Sums over the last layers of two encoders: two on the CPU, all four on the GPU."""
    scores = [linear(32, width, out, bias=True) for out in (width, 1)]
    decision = [linear(1, width + 4, 256, bias=True), linear(1, 256, 2, bias=True)]
    costs = [price(example_view(example), M4_MAX) for example in (*scores, *decision)]
    assert sum(cost["mps_graph"].ms for cost in costs) * 1e3 == pytest.approx(gpu_us, rel=1e-6)
    assert sum(cost["bnns"].ms for cost in costs[2:]) * 1e3 == pytest.approx(cpu_us, rel=1e-6)
    assert [cost["ane"].rate.name for cost in costs[:2]] == ["linear, small"] * 2


def test_between_few_and_more_rows_both_leaves_are_possible() -> None:
    few, some, more, most = (
        price(example_view(linear(rows, 1024, 1024)), M4_MAX)["bnns"] for rows in (8, 9, 15, 16)
    )
    assert [cost.rate.name for cost in (few, some, more, most)] == [
        *("linear, few rows", "linear, few rows", "linear, small", "linear, small")
    ]
    assert some.low <= some.ms < 2 * some.ms < some.high
    assert more.low < more.ms / 2 < more.ms <= more.high
    assert (few.basis, some.basis, more.basis, most.basis) == ("recovered", "assumed", "assumed", "recovered")


def test_wider_results_of_few_rows_are_not_on_the_small_leaf() -> None:
    names = [price(example_view(linear(16, 576, out)), M4)["ane"].rate.name for out in (192, 576, 1536)]
    assert names == ["linear, small", "linear, small", "linear, medium"]


def test_long_attention_costs_the_cpu_more_than_its_bytes() -> None:
    def attention(heads: int, positions: int) -> float:
        shape = fp16(1, heads, positions, 64)
        example = Example("scaled_dot_product_attention", dict.fromkeys(("query", "key", "value"), shape))
        prices = price(example_view(example), M4)
        return prices["bnns"].ms / prices["ane"].ms

    assert attention(8, 128) == pytest.approx(1.2)
    assert attention(16, 2048) > 10


@pytest.mark.parametrize("size", [48, 64, 128])
def test_resizing_costs_bytes_for_every_factor(size: int) -> None:
    example = Example(
        "resize_bilinear",
        {"x": fp16(1, 64, 32, 32), "target_size_height": size, "target_size_width": size},
        outputs=(fp16(1, 64, size, size),),
    )
    moved = 2 * 64 * (32 * 32 + size * size)
    assert price(example_view(example), M4)["bnns"].ms == pytest.approx(
        moved / 60.845367296e9 * 1e3, rel=1e-3
    )


@pytest.mark.parametrize(
    ("channels", "before", "factors", "after", "us"),
    [
        (64, (24, 32), (2.0, 2.0), (48, 64), 1.70264),
        (64, (48, 64), (2.0, 2.0), (96, 128), 6.81024),
        (384, (37, 37), (24 / 37, 32 / 37), (24, 32), 18.20924),
        (32, (296, 296), (1.75, 1.75), (518, 518), 97.113),
    ],
)
def test_upsampling_counts_the_elements_of_its_input(
    channels: int, before: tuple[int, int], factors: tuple[float, float], after: tuple[int, int], us: float
) -> None:
    """Costs on the GPU in plans of an M1 Max (jvcleave/DepthStudies), from weights with up to 17 digits."""
    height, width = factors
    given = {"scale_factor_height": height, "scale_factor_width": width, "align_corners": False}
    example = Example(
        "upsample_bilinear",
        {"x": fp16(1, channels, *before), **given},
        outputs=(fp16(1, channels, *after),),
    )
    found = price(example_view(example), rate_table(find_device("m1-max", "27")))["mps_graph"]
    assert (found.ms * 1e3, found.basis) == (pytest.approx(us, rel=3e-4), "recovered")


@pytest.mark.parametrize(
    ("channels", "kernel", "stride", "size", "ane", "gpu"),
    [
        ((3, 24), 3, 2, 384, 243.302, 608.256),
        ((24, 48), 3, 2, 192, 33.4101, 150.8959),
        ((48, 48), 3, 1, 96, 31.5299, 69.6758),
        ((48, 96), 3, 2, 96, 15.7649, 34.8379),
        ((96, 96), 3, 1, 48, 31.5117, 69.6356),
    ],
)
def test_convolutions_with_a_bias_on_an_m1_max(
    channels: tuple[int, int], kernel: int, stride: int, size: int, ane: float, gpu: float
) -> None:
    """Costs in µs of the encoder of ZipDepth (jvcleave/DepthStudies)."""
    inner, outer = channels
    example = conv(
        fp16(1, inner, size, size), outer, inner, kernel, kernel, bias=weight(outer), strides=[stride, stride]
    )
    costs = price(example_view(example), rate_table(find_device("m1-max", "27")))
    assert costs["ane"].ms * 1e3 == pytest.approx(ane, rel=2e-5)
    assert costs["mps_graph"].ms * 1e3 == pytest.approx(gpu, rel=2e-5)


def test_normalizations_count_neither_statistics_nor_scales() -> None:
    vectors = {name: weight(384) for name in ("gamma", "beta")}
    m1_max, m4_max = rate_table(find_device("m1-max", "27")), rate_table(find_device("m4-max", "26"))
    layer = Example("layer_norm", {"x": fp16(1, 769, 384), "axes": [-1], **vectors})
    moved = 2 * 2 * 769 * 384
    for backend in ("ane", "mps_graph"):
        cost = price(example_view(layer), m1_max)[backend]
        assert cost.ms == pytest.approx(moved / (57 * 2**30) * 1e3, rel=1e-9)
    # 28.722 µs with 512 positions of 1,024 channels.
    vectors = {name: weight(1024) for name in ("mean", "variance", "gamma", "beta")}
    batch = Example("batch_norm", {"x": fp16(1, 1024, 1, 512), **vectors})
    assert price(example_view(batch), m4_max)["mps_graph"].ms == pytest.approx(0.028722, rel=2e-5)


@pytest.mark.parametrize(
    ("chip", "maps", "groups", "costs_us"),
    [
        ("m1-max", (96, 48, 48), 96, {"ane": (19.90656, 4.97664), "mps_graph": (49.7664, 12.4416)}),
        ("m4", (64, 32, 32), 1, {"ane": (4.674, 2.63)}),
    ],
)
def test_dilation_by_two_leaves_a_quarter_of_the_operations(chip, maps, groups, costs_us) -> None:
    """Depthwise on an M1 Max (jvcleave/DepthStudies); dense on an M4, where the leaf is another one."""
    channels, precision = maps[0], 1e-6 if groups > 1 else 3e-3
    rates = rate_table(find_device(chip, "27"))
    same = {"pad_type": "same", "groups": groups}
    plain, dilated, further = (
        price(example_view(conv(fp16(1, *maps), channels, channels // groups, 3, 3, **same, **more)), rates)
        for more in ({}, {"dilations": [2, 2]}, {"dilations": [3, 3]})
    )
    for backend, (of_plain, of_dilated) in costs_us.items():
        assert plain[backend].ms * 1e3 == pytest.approx(of_plain, rel=precision)
        assert dilated[backend].ms * 1e3 == pytest.approx(of_dilated, rel=precision)
        assert (plain[backend].basis, dilated[backend].basis) == ("recovered", "fitted")
        assert further[backend].basis == "assumed"


def up(shape: tuple[int, ...], channels: int, size: int, **more: object) -> Example:
    rank = len(shape) - 1
    arguments = {"x": fp16(1, *shape), "weight": weight(shape[0], channels, *(size,) * rank)}
    return Example("conv_transpose", {**arguments, "strides": [size] * rank, "pad_type": "valid", **more})


def test_transposed_convolutions_count_the_whole_kernel_for_each_result() -> None:
    """73.656625 and 18.426137 µs on the Neural Engine, 411.003981 and 102.817847 on the GPU of an M1 Max."""
    for channels, size, published in ((48, 4, (73.656625, 411.003981)), (96, 2, (18.426137, 102.817847))):
        costs = price(example_view(up((channels, 24, 32), channels, size, bias=weight(channels))), M1_MAX)
        ours = [costs[backend].ms * 1e3 for backend in ("ane", "mps_graph")]
        assert ours == pytest.approx(published, rel=1e-6)
        assert costs["ane"].basis == "recovered"
    # 8.82 µs on an M4.
    assert price(example_view(up((64, 32, 32), 64, 2)), M4)["ane"].ms == pytest.approx(0.00882, rel=1e-3)
    grouped = price(example_view(up((64, 32, 32), 16, 2, groups=4)), M4)
    assert grouped["ane"].ms == pytest.approx(0.00882 / 4, rel=1e-3)


def test_transposed_convolutions_are_slow_on_the_cpu_in_every_rank() -> None:
    """In one and in three dimensions the published rates of the Neural Engine are 180 times as high."""
    for rank in (1, 2, 3):
        costs = price(example_view(up((64, *(16,) * rank), 64, 2)), M4)
        assert costs["bnns"].ms / costs["ane"].ms == pytest.approx(180, rel=0.02)


def test_small_weights_keep_convolutions_sparse_on_an_m1_max() -> None:
    """A first convolution at 18.3 operations per byte is sparse, grouped ones at 14.3 and 14.4 are not."""
    first = price(
        example_view(conv(fp16(1, 3, 384, 384), 24, 3, 3, 3, strides=[2, 2], bias=weight(24))), M1_MAX
    )
    assert first["ane"].ms == pytest.approx(0.243302, rel=1e-5)
    for channels, maps, cost_us in ((144, (96, 48, 48), 2.777744), (96, (144, 96, 96), 11.110978)):
        grouped = conv(fp16(1, *maps), channels, maps[0] // 4, 1, 1, groups=4)
        assert price(example_view(grouped), M1_MAX)["ane"].ms * 1e3 == pytest.approx(cost_us, rel=1e-6)


def test_costs_near_a_border_span_both_leaves() -> None:
    """84.9 operations per byte with 256 products lie between the published 80.6 and 101.7 of an M4 Pro."""
    table = rate_table(find_device("m4-pro", "27"))
    strided = conv(fp16(16, 256, 56, 56), 512, 256, 1, 1, strides=[2, 2])
    between = price(example_view(strided), table)["ane"]
    assert between.high / between.low == pytest.approx(6870.994 / 3159.306, rel=1e-3)
    other = "dense" if between.rate.name == "convolution, medium" else "medium"
    assert f"near the border to: convolution, {other}, whose rate" in between.rate.note
    clear = price(example_view(conv(fp16(16, 64, 28, 28), 64, 64, 3, 3)), table)["ane"]
    assert clear.high / clear.low == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize(("groups", "leaf"), [(1, "dense"), (8, "medium"), (16, "sparse"), (64, "sparse")])
def test_grouped_convolutions_of_an_m4_have_the_leaf_of_their_density(groups: int, leaf: str) -> None:
    """With 16 groups, 17.7 operations per byte are sparse on other chips; an M4's own plans leave it open."""
    cost = price(example_view(conv(fp16(1, 64, 32, 32), 64, 64 // groups, 3, 3, groups=groups)), M4)["ane"]
    assert cost.rate.name == f"convolution, {leaf}"
    assert (cost.high > cost.low) == (groups == 16)


def test_small_transposes_that_move_outer_axes_have_their_own_rate() -> None:
    def cost(shape: tuple[int, ...], *perm: int) -> PlannedCosts:
        return price(example_view(Example("transpose", {"x": fp16(*shape), "perm": list(perm)})), M4_MAX)

    # 464 of them cost 7,269.9 µs on the GPU, 16 cost 53.602 µs on the Neural Engine (AirRunner/laya-apple).
    exchanged = cost((1, 64, 1, 512), 0, 3, 2, 1)
    assert exchanged["mps_graph"].ms == pytest.approx(7.2699 / 464, rel=1e-5)
    assert exchanged["ane"].ms == pytest.approx(0.053602 / 16, rel=1e-5)
    assert cost((1, 64, 1, 512), 0, -1, 2, 1)["ane"].ms == exchanged["ane"].ms
    heads = cost((1, 96, 12, 64), 0, 2, 1, 3)
    assert heads["ane"].ms / exchanged["ane"].ms == pytest.approx((96 * 768 + 4) / (64 * 512 + 4))
    names = [
        cost(shape, *perm)["ane"].rate.name
        for shape, *perm in (
            ((1, 16, 32, 64), 0, 1, 3, 2),
            ((1, 512, 1, 1), 0, 2, 3, 1),
            ((1, 128, 12, 64), 0, 2, 1, 3),
        )
    ]
    assert names == ["transpose, small", "transpose, small", "transpose, large"]


def test_only_large_weights_make_convolutions_of_few_positions_sparse_on_an_m4_max() -> None:
    """Published are convolutions of 64 positions with weights of 1.2 MB and more."""
    m4_max = rate_table(find_device("m4-max"))
    large = price(example_view(conv(fp16(1, 768, 1, 64), 768, 768, 1, 1)), m4_max)
    assert {cost.rate.name for cost in large.values()} == {"convolution, sparse"}
    small = price(example_view(conv(fp16(1, 64, 56, 56), 256, 64, 1, 1)), m4_max)
    assert {cost.rate.name for cost in small.values()} == {"convolution, medium"}
