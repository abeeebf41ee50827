"""Reading of the programs of Core AI models. The samples were written by coreai-core."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from coremlscope.base.errors import CoremlscopeError, CorruptModelError, NotAModelError, UnsupportedModelError
from coremlscope.describe.model import describe_model
from coremlscope.describe.weights import identify
from coremlscope.formats import container
from coremlscope.formats.aimodel.bundle import open_program, read_metadata
from coremlscope.formats.aimodel.bytecode import read_bytecode
from coremlscope.formats.aimodel.content import Content, StoredOp, read_content
from coremlscope.formats.aimodel.cursor import Cursor
from coremlscope.model.ir import DType, StateType, TensorType
from tests.support.aicode import Body, Graph, Val, tensor, write_bundle
from tests.support.aimodels import copy_bundle, program_of, sample


def content_of(name: str) -> Content:
    storage, remark = open_program(sample(name))
    assert remark == ""
    return read_content(storage)


def ops_of(content: Content, graph: str = "main") -> list[StoredOp]:
    return [op for op in content.graphs[graph].body.ops if op.name != "constant"]


# Primitives


@pytest.mark.parametrize(
    ("encoded", "value"),
    [
        ("03", 1),
        ("ff", 127),
        ("0202", 128),
        ("feff", 16383),
        ("040002", 16384),
        ("00ffffffffffffffff", 2**64 - 1),
        ("8000000000000001", 2**48),
    ],
)
def test_integers_of_variable_width(encoded: str, value: int) -> None:
    data = memoryview(bytes.fromhex(encoded))
    assert Cursor(data, 0, len(data)).varint() == value


def test_signed_integers() -> None:
    data = memoryview(bytes.fromhex("01030509"))
    cursor = Cursor(data, 0, 4)
    assert [cursor.signed() for _ in range(4)] == [0, -1, 1, 2]


# Files


def test_operations_with_types_and_origins() -> None:
    content = content_of("tiny_conv")
    ops = ops_of(content)
    assert [op.name for op in ops[:4]] == ["pad", "conv2d", "broadcasting_add", "relu"]
    assert len(ops) == 22  # coreai-core walks 21 operations that are no constants, and `output`
    assert content.unknown == {}
    conv = ops[1]
    assert content.type(conv.results[0]) == TensorType(DType.FP32, (1, 16, 16, 16))
    origin = content.origin(conv)
    assert (origin.nodes, origin.modules, origin.id) == (("convolution",), ("TinyConv$1", "Conv2d$1"), 21)


def test_interface() -> None:
    graph = content_of("tiny_conv").graphs["main"]
    assert [(f.name, f.type) for f in graph.inputs] == [("image", TensorType(DType.FP32, (1, 3, 32, 32)))]
    assert [f.name for f in graph.outputs] == ["probabilities"]


def test_dynamic_dimensions() -> None:
    graph = content_of("tiny_encoder_dynamic").graphs["main"]
    assert graph.inputs[0].type == TensorType(DType.FP32, (1, None, 32))


def test_states_and_composites() -> None:
    content = content_of("tiny_decoder_state")
    main = content.graphs["main"]
    state = StateType(TensorType(DType.FP32, (1, 2, 16, 16)))
    assert [(f.name, f.state, f.type) for f in main.inputs[:2]] == [
        ("k_cache", "k_cache", state),
        ("v_cache", "v_cache", state),
    ]
    composites = [g for g in content.graphs.values() if g.is_private]
    assert [g.composite for g in composites] == ["layer_norm", "scaled_dot_product_attention"]
    assert composites[0].composite_attributes["axes"] == (2,)
    assert composites[0].composite_attributes["eps"] == pytest.approx(1e-5)
    assert composites[1].composite_attributes["is_causal"] is False


def test_constants_of_every_storage() -> None:
    content = content_of("tiny_conv_int8")
    values = [content.constant(op) for op in content.graphs["main"].body.ops if op.name == "constant"]
    types = Counter(value.type.dtype for value in values if isinstance(value.type, TensorType))
    assert types[DType.INT8] == 10
    for value in values:
        assert value.numpy().shape == value.type.shape


def test_weights_are_mapped() -> None:
    content = content_of("tiny_conv")
    large = [
        value
        for op in content.graphs["main"].body.ops
        if op.name == "constant" and (value := content.constant(op)).data.stored_bytes > 1024
    ]
    assert large
    assert not any(value.numpy().flags.owndata for value in large)


def test_four_bit_indices_are_packed_in_resources() -> None:
    content = content_of("tiny_conv_lut4")
    indices = [
        content.constant(op)
        for op in content.graphs["main"].body.ops
        if op.name == "constant" and content.type(op.results[0]).dtype is DType.UINT4  # type: ignore[union-attr]
    ]
    assert [value.data.stored_bytes * 2 for value in indices] == [432, 144, 256, 1024, 640]
    assert all(int(value.numpy().max()) == 15 for value in indices)


def test_metadata() -> None:
    found = read_metadata(sample("tiny_conv"))
    assert (found.asset_version, found.producer) == ("2.0", "coreai-core 1.0.0b3")
    assert found.metadata.user_defined["creationDate"] == "20261121T230439Z"


# Damaged and foreign files


def test_a_changed_program_does_not_match_its_hash(tmp_path: Path) -> None:
    bundle = copy_bundle("tiny_conv", tmp_path)
    program = bundle / "main.mlirb"
    data = bytearray(program.read_bytes())
    data[-100] ^= 1  # in a weight: everything else is still valid
    program.write_bytes(data)
    with pytest.raises(CorruptModelError, match=r"does not match main\.hash"):
        open_program(bundle)


def test_a_bundle_without_hash_is_remarked(tmp_path: Path) -> None:
    bundle = copy_bundle("tiny_conv", tmp_path)
    (bundle / "main.hash").unlink()
    assert "was not checked" in open_program(bundle)[1]


def test_a_bundle_without_program(tmp_path: Path) -> None:
    bundle = copy_bundle("tiny_conv", tmp_path)
    (bundle / "main.mlirb").unlink()
    with pytest.raises(CorruptModelError, match=r"main\.mlirb is missing"):
        open_program(bundle)


def test_a_compiled_bundle_names_its_architectures(tmp_path: Path) -> None:
    bundle = tmp_path / "net.aimodelc"
    bundle.mkdir()
    for name in ("h18p", "h16c"):
        (bundle / f"main-{name}.mlirb").write_bytes(b"x")
    with pytest.raises(UnsupportedModelError, match="compiled for h16c, h18p"):
        open_program(bundle)


def test_a_compiled_bundle_is_described(tmp_path: Path) -> None:
    bundle = tmp_path / "net.aimodelc"
    (bundle / "main-h18p-delegates" / "MPSGraph").mkdir(parents=True)
    (bundle / "main-h18p.mlirb").write_bytes(b"x")
    (bundle / "metadata.json").write_text('{"producer": "coreai-build-1"}')
    rows = '[{"count": 2, "name": "add"}, {"name": "constant", "count": 5}, {"name": "odd"}]'
    (bundle / "stats.json").write_text(f'{{"operationDistribution": {rows}, "computeTypes": ["Float16"]}}')
    summary = describe_model(container.read(bundle))
    facts = dict(summary.facts)
    assert (facts["compiled for"], facts["delegates"]) == ("h18p", "main-h18p: MPSGraph")
    assert (facts["operations"], facts["computes in"]) == ("7 in all: constant ×5, add ×2", "Float16")
    assert summary.user_defined["producer"] == "coreai-build-1"
    assert summary.absent
    for text in ("{", "[]", '{"operationDistribution": 3}'):
        (bundle / "stats.json").write_text(text)
        assert "operations" not in dict(describe_model(container.read(bundle)).facts)


@pytest.mark.parametrize("text", ["[]", "{", "3", '"x"'])
def test_metadata_that_are_no_object(tmp_path: Path, text: str) -> None:
    bundle = copy_bundle("tiny_conv", tmp_path)
    (bundle / "metadata.json").write_text(text)
    with pytest.raises(CorruptModelError, match="is not a JSON object"):
        read_metadata(bundle)


def test_other_bytes_are_not_bytecode() -> None:
    with pytest.raises(NotAModelError, match="not MLIR bytecode"):
        read_bytecode(memoryview(b"BC\xc0\xde12345678"))


def test_other_versions_are_not_read() -> None:
    with pytest.raises(UnsupportedModelError, match="version 9 of MLIR bytecode"):
        read_bytecode(memoryview(b"ML\xefR\x13MLIR\0"))


def test_every_truncation_is_an_error() -> None:
    data = program_of("tiny_conv")
    for size in range(4, len(data), 997):
        with pytest.raises(CorruptModelError):
            read_bytecode(memoryview(data[:size]))


def test_mutations_are_errors_or_programs() -> None:
    """No mutation of the encoded program raises anything but an error with a sentence."""
    data = program_of("tiny_decoder_state")
    chance = random.Random(20)
    kinds: Counter[str] = Counter()
    for _ in range(30):
        damaged = bytearray(data)
        for _ in range(chance.choice((1, 1, 2, 8))):
            damaged[chance.randrange(5, 20_000)] = chance.choice((0, 1, 255, chance.randrange(256)))
        try:
            content = read_content(_Memory(bytes(damaged)))
            for graph in content.graphs.values():
                for op in graph.body.ops:
                    content.origin(op)
                    if op.name == "constant":
                        content.constant(op).numpy()
            kinds["read"] += 1
        except CoremlscopeError as error:
            kinds["error" if len(error.message) > 10 else "empty"] += 1
    assert not kinds["empty"]
    assert kinds["error"] > 5
    assert kinds["read"] > 2


@dataclasses.dataclass
class _Memory:
    """A file in memory, with the interface of a weight file."""

    data: bytes
    is_available: bool = True

    @property
    def size(self) -> int:
        return len(self.data)

    def read(self, offset: int, size: int, what: str) -> memoryview:
        assert offset + size <= len(self.data), what
        return memoryview(self.data)[offset : offset + size]


def test_values_of_a_splat_are_not_copied() -> None:
    content = content_of("tiny_decoder_state")
    ones = [
        value
        for op in content.graphs["main"].body.ops
        if op.name == "constant"
        and (value := content.constant(op)).type == TensorType(DType.FP32, (32,))
        and np.all(value.numpy() == 1)
    ]
    assert len(ones) == 1
    assert ones[0].numpy().strides == (0,)


def test_data_of_one_place_is_one_weight(tmp_path: Path) -> None:
    """Functions of one file share weights, such as those for prefill and for decoding."""

    def write(b: Body, x: Val) -> Sequence[Val]:
        first, second = b.constant(np.ones(512)), b.constant(np.zeros(512))
        return [b.op("broadcasting_add", [b.op("broadcasting_add", [x, first], [x.type]), second], [x.type])]

    bundle = write_bundle(tmp_path / "net.aimodel", [Graph("main", {"x": tensor("fp32", 512)}, write)])
    content = read_content(open_program(bundle)[0])
    ops = [op for op in content.graphs["main"].body.ops if op.name == "constant"]
    keys = [identify(content.constant(op)) for op in (*ops, *ops)]
    assert keys[:2] == keys[2:]
    assert keys[0] != keys[1]
