"""Weight files and the packing of elements, compared with coremltools' reader and writer and ml_dtypes."""

from __future__ import annotations

import struct
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from coremlscope.base.errors import CorruptModelError, MissingWeightsError
from coremlscope.formats import weights
from coremlscope.formats.packing import pack, unpack
from coremlscope.formats.weights import BLOB_TYPES, BlobData, BlobWriter, WeightStorage
from coremlscope.model import ir

_NAME = "@model_path/weights/weight.bin"
_INTEGERS = [dtype for dtype in ir.DType if dtype.is_int]
#: Types by their names in coremltools' native reader and writer.
_NATIVE = {
    "float": ir.DType.FP32,
    "fp16": ir.DType.FP16,
    "int8": ir.DType.INT8,
    "uint8": ir.DType.UINT8,
    "int16": ir.DType.INT16,
    "uint16": ir.DType.UINT16,
    "int32": ir.DType.INT32,
    "uint32": ir.DType.UINT32,
    "int4": ir.DType.INT4,
    "uint1": ir.DType.UINT1,
    "uint2": ir.DType.UINT2,
    "uint3": ir.DType.UINT3,
    "uint4": ir.DType.UINT4,
    "uint6": ir.DType.UINT6,
}
_MIRRORS = {
    ir.DType.BF16: ml_dtypes.bfloat16,
    ir.DType.FP8_E4M3: ml_dtypes.float8_e4m3fn,
    ir.DType.FP8_E5M2: ml_dtypes.float8_e5m2,
}


def _elements(dtype: ir.DType, shape: tuple[int, ...], seed: int = 0) -> ir.Array:
    """Returns random elements over the whole range of a type."""
    random = np.random.default_rng(seed)
    if dtype in _MIRRORS:
        return random.standard_normal(shape).astype(_MIRRORS[dtype]).astype(np.float32)
    if not dtype.is_int:
        return random.standard_normal(shape).astype(dtype.numpy)
    low = -(1 << dtype.bits - 1) if dtype.numpy.kind == "i" else 0
    return random.integers(low, low + (1 << dtype.bits), shape, dtype=dtype.numpy, endpoint=False)


def _constant(dtype: ir.DType, shape: tuple[int, ...]) -> ir.Constant:
    return ir.Constant(ir.TensorType(dtype, shape), ir.Immediate(_elements(dtype, shape)))


@pytest.mark.parametrize("dtype", _INTEGERS, ids=lambda dtype: dtype.value)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (3, 5), (2, 3, 11)], ids=str)
def test_integers_pack_and_unpack(dtype: ir.DType, shape: tuple[int, ...]) -> None:
    if dtype.bits == 64:
        array = np.arange(np.prod(shape, dtype=int)).astype(dtype.numpy).reshape(shape)
    else:
        array = _elements(dtype, shape)
    type_ = ir.TensorType(dtype, shape)
    packed = pack(array, dtype)
    assert len(packed) == type_.nbytes
    np.testing.assert_array_equal(unpack(packed, type_), array, strict=True)


def test_sub_byte_packing_starts_at_the_least_significant_bit() -> None:
    np.testing.assert_array_equal(unpack(b"\x2f", ir.TensorType(ir.DType.INT4, (2,))), [-1, 2])
    np.testing.assert_array_equal(unpack(b"\x88\xc6\xfa", ir.TensorType(ir.DType.UINT3, (8,))), range(8))
    np.testing.assert_array_equal(unpack(b"\x05", ir.TensorType(ir.DType.UINT1, (4,))), [1, 0, 1, 0])


@pytest.mark.parametrize("dtype", _MIRRORS, ids=lambda dtype: dtype.value)
def test_small_floats_agree_with_ml_dtypes(dtype: ir.DType) -> None:
    codes = np.arange(1 << dtype.bits).astype(np.uint16 if dtype.bits == 16 else np.uint8)
    expected = codes.view(_MIRRORS[dtype]).astype(np.float32)
    found = unpack(codes.tobytes(), ir.TensorType(dtype, codes.shape))
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))
    assert pack(found, dtype) == codes.tobytes()


@pytest.mark.parametrize(
    ("dtype", "largest", "infinity"),
    [
        (ir.DType.BF16, float.fromhex("0x1.FEp127"), np.inf),
        (ir.DType.FP8_E4M3, 448.0, 448.0),
        (ir.DType.FP8_E5M2, 57344.0, np.inf),
    ],
    ids=lambda value: value.value if isinstance(value, ir.DType) else "",
)
def test_small_floats_round_towards_zero(dtype: ir.DType, largest: float, infinity: float) -> None:
    float32_max = np.finfo(np.float32).max
    just_below_two = np.nextafter(np.float32(2), np.float32(0))
    low_payload_nan = np.uint32(0x7F800001).view(np.float32)
    array = np.array([float32_max, np.inf, just_below_two, 1e-30, low_payload_nan], np.float32)
    type_ = ir.TensorType(dtype, array.shape)
    for sign in np.float32([1, -1]):
        found = sign * unpack(pack(np.copysign(array, sign), dtype), type_)
        assert found[0] == largest
        assert found[1] == infinity
        assert 1.5 < found[2] < 2.0
        assert 0 <= found[3] <= np.float32(1e-30)
        assert np.isnan(found[4])


@pytest.mark.parametrize("name", _NATIVE)
def test_coremltools_reads_written_blobs(tmp_path: Path, name: str) -> None:
    from coremltools.libmilstoragepython import _BlobStorageReader

    path = tmp_path / "weight.bin"
    constant = _constant(_NATIVE[name], (3, 7))
    with BlobWriter(path) as writer:
        writer.write(_constant(ir.DType.INT8, (5,)))
        offset = writer.write(constant)
    found = getattr(_BlobStorageReader(str(path)), f"read_{name}_data")(offset)
    np.testing.assert_array_equal(found.view(constant.numpy().dtype).reshape(3, 7), constant.numpy())


@pytest.mark.parametrize("name", _NATIVE)
def test_blobs_of_coremltools_are_read(tmp_path: Path, name: str) -> None:
    from coremltools.libmilstoragepython import _BlobStorageWriter

    path = tmp_path / "weight.bin"
    array = _elements(_NATIVE[name], (21,))
    writer = _BlobStorageWriter(str(path))
    writer.write_int8_data(np.ones(3, np.int8))
    offset = getattr(writer, f"write_{name}_data")(array.view(np.uint16) if name == "fp16" else array)
    del writer
    data = BlobData(WeightStorage(_NAME, path), offset, ir.TensorType(_NATIVE[name], (3, 7)))
    np.testing.assert_array_equal(data.numpy(), array.reshape(3, 7), strict=True)


@pytest.mark.parametrize("dtype", BLOB_TYPES.values(), ids=lambda dtype: dtype.value)
def test_every_stored_type_reads_back(tmp_path: Path, dtype: ir.DType) -> None:
    path = tmp_path / "weight.bin"
    constant = _constant(dtype, (3, 13))
    with BlobWriter(path) as writer:
        offset = writer.write(constant)
    data = BlobData(WeightStorage(_NAME, path), offset, ir.TensorType(dtype, (3, 13)))
    np.testing.assert_array_equal(data.numpy(), constant.numpy(), strict=True)
    start, size = data.location()
    assert (start, size) == (128, data.stored_bytes)
    assert not data.numpy().flags.writeable or dtype.bits < 8 or dtype in _MIRRORS


def test_equal_blobs_are_stored_once(tmp_path: Path) -> None:
    constant = _constant(ir.DType.FP16, (40,))
    with BlobWriter(tmp_path / "weight.bin") as writer:
        offsets = [
            writer.write(constant),
            writer.write(_constant(ir.DType.INT8, (40,))),
            writer.write(constant),
        ]
    assert offsets[0] == offsets[2] != offsets[1]
    assert (tmp_path / "weight.bin").read_bytes()[:8] == struct.pack("<II", 2, 2)


def test_arrays_are_views_of_one_mapping(tmp_path: Path) -> None:
    with BlobWriter(tmp_path / "weight.bin") as writer:
        offset = writer.write(_constant(ir.DType.FP32, (16,)))
    storage = WeightStorage(_NAME, tmp_path / "weight.bin")
    first, second = (BlobData(storage, offset, ir.TensorType(ir.DType.FP32, (16,))).numpy() for _ in range(2))
    assert np.shares_memory(first, second)
    del storage
    (tmp_path / "weight.bin").unlink()
    np.testing.assert_array_equal(first, _elements(ir.DType.FP32, (16,)))


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="reads /proc")
def test_pages_that_were_read_are_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, size = tmp_path / "weight.bin", 1 << 20
    path.write_bytes(bytes(range(256)) * (16 * size // 256))
    monkeypatch.setattr(weights, "_MOST_RESIDENT", 2 * size)
    storage = WeightStorage(_NAME, path)
    views = []
    for place in range(16):
        views.append(storage.read(place * size, size, "a part"))
        assert bytes(views[-1][:256]) * (size // 256) == views[-1]
    _, _, mapping = Path("/proc/self/smaps").read_text().partition(str(path))
    assert int(mapping.partition("\nRss:")[2].split()[0]) <= 3 * size // 1024
    assert views[0] == views[15]


class TestBadFiles:
    """Each defect gives a clear error, but only on access to the elements."""

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        path = tmp_path / "weight.bin"
        with BlobWriter(path) as writer:
            assert writer.write(_constant(ir.DType.FP16, (16,))) == 64
        return path

    @staticmethod
    def _data(path: Path, offset: int = 64, dtype: ir.DType = ir.DType.FP16, size: int = 16) -> BlobData:
        return BlobData(WeightStorage(_NAME, path), offset, ir.TensorType(dtype, (size,)))

    @staticmethod
    def _overwrite(path: Path, offset: int, content: bytes) -> None:
        data = bytearray(path.read_bytes())
        data[offset : offset + len(content)] = content
        path.write_bytes(data)

    def test_missing_file(self, path: Path) -> None:
        data = self._data(path.with_name("other.bin"))
        assert not data.is_available
        assert data.stored_bytes == 32
        with pytest.raises(MissingWeightsError, match="is missing"):
            data.numpy()

    @pytest.mark.parametrize("offset", [128, 1 << 20, 2**64 - 1])
    def test_offset_past_the_end(self, path: Path, offset: int) -> None:
        with pytest.raises(MissingWeightsError, match=f"byte {offset} .* is outside {_NAME} "):
            self._data(path, offset).numpy()

    def test_truncated_data(self, path: Path) -> None:
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(MissingWeightsError, match=r"byte 128 \(32 bytes\) is outside"):
            self._data(path).numpy()

    def test_empty(self, path: Path) -> None:
        path.write_bytes(b"")
        with pytest.raises(MissingWeightsError, match="0 bytes"):
            self._data(path).numpy()

    def test_data_past_the_end(self, path: Path) -> None:
        self._overwrite(path, 64 + 16, struct.pack("<Q", 2**63))
        with pytest.raises(MissingWeightsError, match="is outside"):
            self._data(path).numpy()

    def test_other_type(self, path: Path) -> None:
        with pytest.raises(
            CorruptModelError, match=r"contains fp16, but the program declares tensor<fp32, \[16\]>"
        ):
            self._data(path, dtype=ir.DType.FP32).numpy()

    def test_unknown_type(self, path: Path) -> None:
        self._overwrite(path, 64 + 4, b"\xff")
        with pytest.raises(CorruptModelError, match="unknown type 255"):
            self._data(path).numpy()

    def test_other_size(self, path: Path) -> None:
        with pytest.raises(CorruptModelError, match=r"32 bytes, but tensor<fp16, \[1099511627776\]> needs"):
            self._data(path, size=1 << 40).numpy()

    def test_no_blob_at_the_offset(self, path: Path) -> None:
        with pytest.raises(CorruptModelError, match="no blob starts at byte 32"):
            self._data(path, 32).numpy()

    def test_other_version(self, path: Path) -> None:
        self._overwrite(path, 4, b"\x01")
        with pytest.raises(CorruptModelError, match="storage version 1"):
            self._data(path).numpy()

    def test_git_lfs_pointer(self, path: Path) -> None:
        path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n")
        with pytest.raises((CorruptModelError, MissingWeightsError)) as caught:
            self._data(path).numpy()
        assert "git lfs pull" in caught.value.hint
