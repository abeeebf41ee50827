"""Invalid input gives the right error with a clear message and a hint, without large allocations."""

from __future__ import annotations

import json
import os
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coremlscope.base.errors import (
    CorruptModelError,
    MissingWeightsError,
    ModelError,
    NotAModelError,
    UnsupportedModelError,
)
from coremlscope.formats import container, packaging
from coremlscope.formats.mlmodel import write_spec
from coremlscope.formats.values import write_immediate
from coremlscope.model import ir, schema
from tests.support.constant_programs import constants_of, linear_model
from tests.support.wire_format import field

_SPEC = write_spec(linear_model(), write_immediate)
_SPEC_PATH = "Data/com.apple.CoreML/model.mlmodel"
_WEIGHT_PATH = "Data/com.apple.CoreML/weights/weight.bin"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    path = tmp_path / "model.mlpackage"
    packaging.write_mlpackage(linear_model(), path)
    return path


def _edited(edit: Callable[[Any], object]) -> bytes:
    """Returns the specification of the small model after editing its message."""
    spec = schema.message_class("Model").FromString(_SPEC)
    edit(spec)
    data: bytes = spec.SerializeToString()
    return data


def _ops(spec: Any) -> Any:
    return spec.mlProgram.functions[0].value.block_specializations[0].value.operations


def _lengthen(messages: Any, count: int) -> None:
    """Adds copies of the first message to a repeated field."""
    messages.extend([messages[0]] * count)


def _value(spec: Any, index: int) -> Any:
    return next(entry.value for entry in _ops(spec)[index].attributes if entry.key == "val")


def _weight(model: ir.Model) -> ir.Constant:
    """Returns the constant of the small model that is in the weight file."""
    assert isinstance(model.content, ir.Program)
    constant = model.content.functions["main"].graph.ops[0].constant
    assert constant is not None
    return constant


class TestNotAModel:
    @pytest.mark.parametrize(
        ("name", "content", "message", "hint"),
        [
            ("m.mlmodel", b"", "is empty", ""),
            ("m.mlmodel", bytes(range(256)), "is not a Core ML model", "mlpackage"),
            ("m.mlmodel", b'{"a": 1}', "is JSON", "mlpackage"),
            ("m.mlmodel", b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer", "git lfs pull"),
            ("m.mlmodel", b"<html>404</html>", "HTML", "download"),
            ("m.mlmodel", b"book\x8c\0\0\0mark" + bytes(36), "a Finder alias", "the model itself"),
            ("m.mlpackage", b"book\x8c\0\0\0mark" + bytes(36), "a Finder alias", "the model itself"),
            ("m.tar.gz", b"\x1f\x8b\x08\x00", "gzip", "unpack"),
            ("m.pt", b"\x80\x02}q\x00.", "PyTorch", "convert the network"),
            ("m.txt", b"hello", "is not a Core ML model", "mlpackage"),
        ],
    )
    def test_files(self, tmp_path: Path, name: str, content: bytes, message: str, hint: str) -> None:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(NotAModelError, match=message) as caught:
            container.read(tmp_path / name)
        assert hint in caught.value.hint
        assert name in caught.value.message

    def test_real_onnx_file(self, tmp_path: Path) -> None:
        import onnx

        graph = onnx.helper.make_graph([], "g", [], [])
        onnx.save(onnx.helper.make_model(graph, producer_name="test"), tmp_path / "model.bin")
        with pytest.raises(NotAModelError):
            container.read(tmp_path / "model.bin")

    def test_bytes(self) -> None:
        with pytest.raises(NotAModelError, match="the data is not a Core ML model"):
            container.read(b"no model")

    def test_folder(self, tmp_path: Path) -> None:
        with pytest.raises(NotAModelError, match="the folder"):
            container.read(tmp_path)

    def test_folder_with_a_package(self, package: Path) -> None:
        with pytest.raises(NotAModelError) as caught:
            container.read(package.parent)
        assert caught.value.hint == f"did you mean {package}?"

    @pytest.mark.parametrize("wrong", ["modle.mlpackage", "model.mlmodel", "Model.mlpackage"])
    def test_misspelled_name(self, package: Path, wrong: str) -> None:
        with pytest.raises(NotAModelError, match=r"the path .* does not exist") as caught:
            container.read(package.with_name(wrong))
        assert caught.value.hint == f"did you mean {package}?"

    def test_names_that_share_only_their_suffix(self, package: Path) -> None:
        with pytest.raises(NotAModelError) as caught:
            container.read(package.with_name("stateful_decoder.mlpackage"))
        assert caught.value.hint == "check the path"

    @pytest.mark.parametrize("target", ["gone.mlpackage", "link.mlpackage"])
    def test_link_to_nothing(self, tmp_path: Path, target: str) -> None:
        link = tmp_path / "link.mlpackage"
        link.symlink_to(target)
        with pytest.raises(NotAModelError) as caught:
            container.read(link)
        assert caught.value.message == f"{link} is a link to {target}, which cannot be followed"
        assert caught.value.hint == "check the link"

    def test_no_such_folder(self, tmp_path: Path) -> None:
        with pytest.raises(NotAModelError) as caught:
            container.read(tmp_path / "a" / "b.mlpackage")
        assert f"the folder {tmp_path / 'a'} does not exist" in caught.value.hint

    def test_what_only_icloud_holds(self, tmp_path: Path) -> None:
        (tmp_path / ".b.mlpackage.icloud").write_bytes(b"bplist00")
        with pytest.raises(NotAModelError) as caught:
            container.read(tmp_path / "b.mlpackage")
        assert "iCloud" in caught.value.hint

    def test_name_too_long(self, tmp_path: Path) -> None:
        with pytest.raises(ModelError):
            container.read(tmp_path / ("x" * 5000))

    def test_device(self) -> None:
        with pytest.raises(NotAModelError, match="is not a file"):
            container.read(os.devnull)

    def test_unreadable(self, package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: object) -> bytes:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "read_bytes", fail)
        with pytest.raises(ModelError, match="cannot be read: Permission denied"):
            container.read(package)


class TestSpecification:
    def test_truncated(self) -> None:
        with pytest.raises(CorruptModelError, match="damaged, truncated"):
            container.read(_SPEC[:-1])

    def test_without_content(self) -> None:
        with pytest.raises(UnsupportedModelError, match=r"the content of .* is unknown"):
            container.read(_edited(lambda spec: spec.ClearField("mlProgram")))

    def test_version_alone(self) -> None:
        with pytest.raises(NotAModelError):
            container.read(b"\x08\x07")

    @pytest.mark.parametrize(
        ("edit", "message"),
        [
            (lambda s: s.mlProgram.ClearField("functions"), "has no functions"),
            (
                lambda s: setattr(s.mlProgram.functions[0].value, "opset", "CoreML99"),
                "no block for its operation set 'CoreML99'",
            ),
            (
                lambda s: setattr(_ops(s)[3].inputs[0].value.arguments[0], "name", "ghost"),
                "main/3 uses the value 'ghost'",
            ),
            (lambda s: _ops(s)[3].inputs[0].value.arguments.add(), "has no value"),
            (
                lambda s: (
                    s.mlProgram.functions[0].value.block_specializations[0].value.outputs.append("ghost")
                ),
                "the result of main uses the value 'ghost'",
            ),
            (
                lambda s: setattr(_value(s, 0).type.tensorType, "dataType", 77),
                r"unknown element type \(number 77\) \(in const at main/0\)",
            ),
            (
                lambda s: setattr(_value(s, 0).type.tensorType, "rank", 3),
                "a tensor of rank 3 has 2 dimensions",
            ),
            (
                lambda s: _lengthen(_value(s, 0).type.tensorType.dimensions, 100_000),
                r"a tensor has 100002 dimensions \(in const at main/0\)",
            ),
            (
                lambda s: setattr(_value(s, 0).type.tensorType.dimensions[0].constant, "size", 2**64 - 1),
                "dimension of 18446744073709551615 elements",
            ),
            (
                lambda s: setattr(_value(s, 0).type.tensorType.dimensions[0].constant, "size", 2**62),
                "has 32 bytes instead of",
            ),
            (
                lambda s: setattr(_value(s, 0).type.tensorType.dimensions[0].unknown, "variadic", False),
                "no fixed shape",
            ),
            (
                lambda s: _value(s, 1).immediateValue.tensor.bools.values.append(True),
                "has 2 elements instead of 1",
            ),
            (
                lambda s: _value(s, 1).immediateValue.tensor.strings.values.append("x"),
                "has elements of type str",
            ),
            (lambda s: _value(s, 1).immediateValue.list.SetInParent(), "has a list value"),
            (lambda s: _value(s, 1).ClearField("type"), "has no type"),
            (lambda s: setattr(_value(s, 1).type.tensorType, "rank", -1), "no fixed shape"),
            (lambda s: _value(s, 2).blobFileValue.SetInParent(), "cannot be in a weight file"),
            (lambda s: s.description.input[0].type.ClearField("multiArrayType"), "feature 'x' is missing"),
            (
                lambda s: setattr(s.description.input[0].type.multiArrayType, "dataType", 5),
                "unknown element type 5 of the multi-array 'x'",
            ),
            (
                lambda s: s.description.input[0].type.multiArrayType.shape.append(-4),
                "has a negative dimension",
            ),
            (
                lambda s: setattr(s.description.input[0].type.imageType, "colorSpace", 7),
                "unknown colour space 7",
            ),
            (lambda s: setattr(s.description.input[0].type.imageType, "width", -7), "invalid size -7x0"),
            (
                lambda s: s.description.MergeFrom(
                    type(s.description)(functions=[{"name": "f"}], defaultFunctionName="g")
                ),
                "default function 'g' has no description",
            ),
        ],
    )
    def test_contradictions(self, edit: Callable[[Any], object], message: str) -> None:
        with pytest.raises(CorruptModelError, match=message) as caught:
            container.read(_edited(edit))
        assert caught.value.hint

    def test_names_cannot_contain_terminal_controls(self) -> None:
        def edit(spec: Any) -> None:
            _ops(spec)[0].type = "\x1b[2J\n" + "x" * 10_000
            _value(spec, 0).type.tensorType.dataType = 77

        with pytest.raises(CorruptModelError) as caught:
            container.read(_edited(edit))
        assert caught.value.message.isprintable()
        assert len(caught.value.message) < 500

    def test_weight_outside_of_the_model(self) -> None:
        def edit(spec: Any) -> None:
            _value(spec, 0).blobFileValue.fileName = "@model_path/../../etc/passwd"

        with pytest.raises(CorruptModelError, match="is outside the model"):
            container.read(_edited(edit))

    @pytest.mark.parametrize("depth", [60, 5000])
    def test_deep_nesting(self, depth: int) -> None:
        """Deeply nested lists overflow neither the stack of protobuf nor that of the reader."""
        type_ = b"\x0a\x04\x08\x0b\x10\x00"
        for _ in range(depth):
            type_ = field(2, field(1, type_))
        entry = field(1, b"a") + field(2, field(2, type_))
        data = b"\x08\x07\x12\x00" + field(502, field(4, entry))  # version, description, Model.mlProgram
        with pytest.raises(ModelError):
            container.read(data)

    def test_declared_sizes_are_not_allocated(self) -> None:
        """A constant, a blob and an empty tensor with declared sizes of exabytes are not allocated."""

        def edit(spec: Any) -> None:
            blob = _value(spec, 0)
            blob.blobFileValue.fileName = "@model_path/weights/weight.bin"
            for dimension in blob.type.tensorType.dimensions:
                dimension.constant.size = 2**31

        data = _edited(edit)
        container.read(data)
        tracemalloc.start()
        model = container.read(data)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2**20
        huge = _weight(model)
        assert not huge.is_available
        with pytest.raises(MissingWeightsError):
            huge.numpy()


class TestPackage:
    def _set_path(self, package: Path, path: object) -> None:
        manifest = json.loads((package / "Manifest.json").read_text())
        manifest["itemInfoEntries"][manifest["rootModelIdentifier"]]["path"] = path
        (package / "Manifest.json").write_text(json.dumps(manifest))

    def test_without_manifest(self, package: Path) -> None:
        (package / "Manifest.json").unlink()
        with pytest.raises(CorruptModelError, match=r"Manifest\.json is missing"):
            container.read(package)

    def test_without_specification(self, package: Path) -> None:
        (package / _SPEC_PATH).unlink()
        with pytest.raises(CorruptModelError, match=r"Data/com\.apple\.CoreML/model\.mlmodel is missing"):
            container.read(package)

    @pytest.mark.parametrize("content", ["", "{", "[" * 100_000, "\x00"])
    def test_manifest_that_is_not_json(self, package: Path, content: str) -> None:
        (package / "Manifest.json").write_text(content)
        with pytest.raises(CorruptModelError, match="is not JSON"):
            container.read(package)

    @pytest.mark.parametrize(
        "content", ["[]", "{}", '{"rootModelIdentifier": "a", "itemInfoEntries": {}}', "3"]
    )
    def test_manifest_without_root(self, package: Path, content: str) -> None:
        (package / "Manifest.json").write_text(content)
        with pytest.raises(CorruptModelError, match="the root model is missing"):
            container.read(package)

    @pytest.mark.parametrize(
        "path", ["../../secret", "/etc/passwd", "a/../../b", "C:\\secret", "..\\secret", ""]
    )
    def test_manifest_that_points_outside(self, package: Path, path: str) -> None:
        self._set_path(package, path)
        with pytest.raises(CorruptModelError, match="points outside the package"):
            container.read(package)

    def test_manifest_path_of_another_type(self, package: Path) -> None:
        self._set_path(package, ["a"])
        with pytest.raises(CorruptModelError, match="the root model is missing"):
            container.read(package)

    def test_linked_folder_outside(self, package: Path, tmp_path: Path) -> None:
        (package / "Data").rename(tmp_path / "elsewhere")
        (package / "Data").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(CorruptModelError, match="is a link to outside"):
            container.read(package)

    def test_linked_files_are_fine(self, package: Path, tmp_path: Path) -> None:
        """The Hugging Face cache contains packages of links."""
        for index, path in enumerate((_SPEC_PATH, _WEIGHT_PATH, "Manifest.json")):
            (package / path).rename(tmp_path / f"blob{index}")
            (package / path).symlink_to(tmp_path / f"blob{index}")
        assert container.read(package) == linear_model()
        assert all(constant.is_available for constant in constants_of(container.read(package)))

    def test_without_weights(self, package: Path) -> None:
        (package / _WEIGHT_PATH).unlink()
        model = container.read(package)
        assert model.weight_files == (ir.WeightFile("weights/weight.bin", None),)
        weight = _weight(model)
        assert not weight.is_available

    def test_weights_next_to_a_single_file(self, package: Path) -> None:
        model = container.read(package / _SPEC_PATH)
        assert model == linear_model()
        assert model.container == "mlmodel"
        assert model.weight_files == (ir.WeightFile("weights/weight.bin", 160),)


class TestArchive:
    @staticmethod
    def _zip(
        package: Path, prefix: str = "model.mlpackage/", compression: int = zipfile.ZIP_DEFLATED
    ) -> Path:
        path = package.with_suffix(".zip")
        with zipfile.ZipFile(path, "w", compression) as archive:
            archive.writestr("__MACOSX/model.mlpackage/._Manifest.json", b"noise")
            for file in sorted(package.rglob("*")):
                archive.write(file, prefix + file.relative_to(package).as_posix())
        return path

    @pytest.mark.parametrize("prefix", ["", "model.mlpackage/", "a/b/model.mlpackage/"])
    @pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_LZMA])
    def test_read(self, package: Path, prefix: str, compression: int) -> None:
        path = self._zip(package, prefix, compression)
        model = container.read(path)
        assert model == linear_model()
        path.unlink()
        assert _weight(model) == _weight(linear_model()), "the mapping outlives the archive"
        assert model.container == "mlpackage"
        assert model.weight_files == (ir.WeightFile("weights/weight.bin", 160),)
        assert model.size_bytes == container.read(package).size_bytes

    def test_without_weights(self, package: Path) -> None:
        (package / _WEIGHT_PATH).unlink()
        model = container.read(self._zip(package))
        assert model.weight_files == (ir.WeightFile("weights/weight.bin", None),)
        assert not _weight(model).is_available

    def test_archive_removed_before_the_weights_are_read(self, package: Path) -> None:
        path = self._zip(package)
        model = container.read(path)
        path.unlink()
        with pytest.raises(MissingWeightsError, match="cannot be read"):
            _weight(model).numpy()

    def test_no_package(self, tmp_path: Path) -> None:
        with zipfile.ZipFile(tmp_path / "m.zip", "w") as archive:
            archive.writestr("a.txt", "x")
        with pytest.raises(NotAModelError, match="does not contain a package"):
            container.read(tmp_path / "m.zip")

    def test_two_packages(self, tmp_path: Path) -> None:
        with zipfile.ZipFile(tmp_path / "m.zip", "w") as archive:
            archive.writestr("a.mlpackage/Manifest.json", "{}")
            archive.writestr("b.mlpackage/Manifest.json", "{}")
        with pytest.raises(NotAModelError, match="contains 2 models") as caught:
            container.read(tmp_path / "m.zip")
        assert "m.zip#a.mlpackage" in caught.value.hint

    def test_truncated(self, package: Path) -> None:
        path = self._zip(package)
        path.write_bytes(path.read_bytes()[:200])
        with pytest.raises(CorruptModelError, match="cannot be read"):
            container.read(path)

    def test_damaged_member(self, package: Path) -> None:
        path = self._zip(package, compression=zipfile.ZIP_STORED)
        path.write_bytes(path.read_bytes().replace(b"CoreML7", b"CoreML8"))
        with pytest.raises(CorruptModelError, match="Bad CRC-32"):
            container.read(path)

    def test_bomb(self, package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("coremlscope.formats.archives._BOMB_BYTES", 2**20)
        (package / _WEIGHT_PATH).write_bytes(bytes(2**21))
        with pytest.raises(CorruptModelError, match="extracted size"):
            container.read(self._zip(package))

    def test_bomb_in_the_specification(self, package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("coremlscope.formats.mlpackage.MAX_SPEC_BYTES", 2**20)
        (package / _SPEC_PATH).write_bytes(bytes(2**21))
        with pytest.raises(CorruptModelError, match=r"model\.mlmodel in .* is larger than 1\.05 MB"):
            container.read(self._zip(package))

    @pytest.mark.parametrize("compression", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
    def test_other_compression(self, package: Path, compression: int) -> None:
        assert container.read(self._zip(package, compression=compression)) == linear_model()

    def test_member_that_is_larger_than_it_says(self, package: Path) -> None:
        """`zipfile` unpacks LZMA in pieces as large as those that it reads, whatever the declared size."""
        (package / _SPEC_PATH).write_bytes(bytes(2**25 + 321))
        path = self._zip(package, compression=zipfile.ZIP_LZMA)
        data = bytearray(path.read_bytes())
        size = struct.pack("<I", 2**25 + 321)
        assert data.count(size) == 2
        path.write_bytes(data.replace(size, struct.pack("<I", 100)))
        tracemalloc.start()
        with pytest.raises(ModelError):
            container.read(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 20 * 2**20

    def test_archive_inside_an_archive(self, package: Path) -> None:
        inner = self._zip(package)
        outer = inner.with_name("outer.zip")
        with zipfile.ZipFile(outer, "w") as archive:
            archive.write(inner, "inner.mlmodel")
        with pytest.raises(CorruptModelError, match="is an archive inside an archive"):
            container.read(outer)

    def test_too_many_members(self, package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("coremlscope.formats.archives._MOST_LISTED_BYTES", 100)
        with pytest.raises(CorruptModelError, match=r"list of files of \d+ B"):
            container.read(self._zip(package))

    def test_too_many_members_of_a_large_archive(
        self, package: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The sizes of a large archive are in another place."""
        monkeypatch.setattr("zipfile.ZIP_FILECOUNT_LIMIT", 1)
        path = self._zip(package)
        assert path.read_bytes().count(b"PK\x06\x06") == 1
        assert container.read(path) == linear_model()
        monkeypatch.setattr("coremlscope.formats.archives._MOST_LISTED_BYTES", 100)
        with pytest.raises(CorruptModelError, match=r"list of files of \d+ B"):
            container.read(path)

    def test_names_cannot_escape(self, package: Path) -> None:
        path = self._zip(package)
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("../../escaped.txt", "x")
        assert container.read(path) == linear_model()
        assert not list(package.parent.parent.glob("**/escaped.txt"))
