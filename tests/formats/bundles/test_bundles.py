"""Apps, archives and folders with several models: finding, naming and reading them, and hostile archives."""

from __future__ import annotations

import gzip
import os
import random
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import coremlscope
from coremlscope.base.errors import CoremlscopeError, CorruptModelError, ModelError, NotAModelError
from coremlscope.dropin.compiled import compile_path
from coremlscope.formats import container, packaging
from coremlscope.formats.bundles import open_bundle
from coremlscope.formats.mlmodel import write_spec
from coremlscope.formats.values import write_immediate
from coremlscope.model import ir
from tests.support.constant_programs import linear_model
from tests.support.networks import network

_SPEC = write_spec(linear_model(), write_immediate)
_APP = "Payload/My App.app"


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """A folder as in an .ipa file: three models, one of them twice, and other files."""
    folder = tmp_path / "unpacked" / _APP
    (folder / "Frameworks" / "Kit.framework").mkdir(parents=True)
    (folder / "Info.plist").write_bytes(b"bplist")
    package = tmp_path / "source.mlpackage"
    packaging.write_mlpackage(linear_model(), package)
    compile_path(package).rename(folder / "Detector.mlmodelc")
    packaging.write_mlpackage(linear_model(), folder / "Frameworks" / "Kit.framework" / "Detector.mlpackage")
    (folder / "Frameworks" / "Kit.framework" / "Tiny.mlmodel").write_bytes(_SPEC)
    return tmp_path / "unpacked"


def _zip(folder: Path, path: Path) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            archive.write(file, file.relative_to(folder).as_posix())
    return path


@pytest.fixture
def ipa(app: Path, tmp_path: Path) -> Path:
    return _zip(app, tmp_path / "App.ipa")


@pytest.mark.parametrize("kind", ["zip", "folder"])
def test_all_models_are_found(kind: str, app: Path, ipa: Path) -> None:
    bundle = open_bundle(ipa if kind == "zip" else app)
    assert bundle is not None
    assert bundle.kind == kind
    assert [(model.name, model.container) for model in bundle.models] == [
        (f"{_APP}/Detector.mlmodelc", "mlmodelc"),
        (f"{_APP}/Frameworks/Kit.framework/Detector.mlpackage", "mlpackage"),
        (f"{_APP}/Frameworks/Kit.framework/Tiny.mlmodel", "mlmodel"),
    ]
    listing = coremlscope.list_models(bundle.path)
    assert listing is not None
    assert [row.name for row in listing.models] == [
        "Detector.mlmodelc",
        "Detector.mlpackage",
        "Tiny.mlmodel",
    ]
    assert {(row.kind, row.functions, row.problem) for row in listing.models} == {
        ("mlProgram", ("main",), "")
    }
    for row in listing.models:
        assert container.read(row.source) == linear_model()


@pytest.mark.parametrize(
    "name",
    [
        f"{_APP}/Detector.mlmodelc",
        "My App.app/Detector.mlmodelc",
        "Detector.mlmodelc",
        "Detector.mlpackage",
        "Kit.framework/Detector",
        "Tiny",
    ],
)
def test_names(name: str, ipa: Path) -> None:
    model = container.read(f"{ipa}#{name}")
    assert model == linear_model()
    assert str(model.source).startswith(f"{ipa}#{_APP}/")


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("", "contains 3 models", "App.ipa#Detector.mlmodelc, "),
        ("#Detector", "2 models in .* have the name 'Detector'", "App.ipa#Detector.mlpackage"),
        ("#Nothing", "contains no model 'Nothing'", "App.ipa#Tiny.mlmodel"),
        ("#../../etc/passwd", "contains no model", "App.ipa#Tiny.mlmodel"),
    ],
)
def test_other_names(name: str, message: str, hint: str, ipa: Path) -> None:
    with pytest.raises(NotAModelError, match=message) as caught:
        container.read(f"{ipa}{name}")
    assert hint in caught.value.hint


def test_a_model_is_no_bundle(tmp_path: Path) -> None:
    path = tmp_path / "model.mlmodel"
    path.write_bytes(_SPEC)
    assert coremlscope.list_models(path) is None
    with pytest.raises(NotAModelError, match="contains no other models"):
        container.read(f"{path}#x")
    with pytest.raises(NotAModelError, match="does not exist"):
        container.read(tmp_path / "absent#x")


def test_a_path_with_the_separator(tmp_path: Path) -> None:
    path = tmp_path / "a#b.mlmodel"
    path.write_bytes(_SPEC)
    assert container.read(path) == linear_model()


@pytest.mark.parametrize("suffix", [".app", ".framework", ".xcarchive"])
def test_an_app_with_one_model_is_read_like_the_model(suffix: str, tmp_path: Path) -> None:
    folder = tmp_path / f"My{suffix}"
    folder.mkdir()
    with pytest.raises(NotAModelError, match="contains no Core ML model"):
        container.read(folder)
    (folder / "a.mlmodel").write_bytes(_SPEC)
    assert container.read(folder) == linear_model()
    (folder / "b.mlmodel").write_bytes(_SPEC)
    with pytest.raises(NotAModelError, match="contains 2 models"):
        container.read(folder)


def test_a_folder_with_several_models_hints_at_the_list(app: Path) -> None:
    with pytest.raises(NotAModelError, match="is not a Core ML model") as caught:
        container.read(app)
    assert caught.value.hint == f"it contains 3 models, which `coremlscope inspect {app}` lists"


def test_models_inside_models_are_not_listed(tmp_path: Path) -> None:
    folder = tmp_path / "apps" / "Pipeline.mlmodelc"
    for stage in ("model0", "model1"):
        (folder / stage).mkdir(parents=True)
        (folder / stage / "coremldata.bin").write_bytes(b"x")
    (folder / "coremldata.bin").write_bytes(b"x")
    bundle = open_bundle(tmp_path / "apps")
    assert bundle is not None
    assert [(model.name, model.size_bytes) for model in bundle.models] == [("Pipeline.mlmodelc", 3)]


def test_folders_of_compiled_models_with_another_name(tmp_path: Path) -> None:
    for name in ("Resources/coremldata.bin", "Resources/analytics/coremldata.bin", "Resources/B.mlmodel"):
        file = tmp_path / "apps" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x")
    bundle = open_bundle(tmp_path / "apps")
    assert bundle is not None
    assert [(model.name, model.container, model.size_bytes) for model in bundle.models] == [
        ("Resources", "mlmodelc", 2),
        ("Resources/B.mlmodel", "mlmodel", 1),
    ]


def test_a_model_that_cannot_be_read_is_listed_with_the_reason(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("good.mlmodel", _SPEC)
        archive.writestr("bad.mlmodel", _SPEC[:40])
    listing = coremlscope.list_models(tmp_path / "a.zip")
    assert listing is not None
    bad, good = listing.models
    assert (good.kind, good.problem) == ("mlProgram", "")
    assert bad.problem.startswith(f"{tmp_path}/a.zip#bad.mlmodel starts like a Core ML model")


class TestHostileArchives:
    @staticmethod
    def _write(path: Path, *members: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in members:
                archive.writestr(name, data)
        return path

    @pytest.mark.parametrize("name", ["../m.mlmodelc/evil", "/tmp/evil.mlmodel", "m.mlmodelc/../../evil"])
    def test_members_outside_are_ignored(self, name: str, tmp_path: Path) -> None:
        path = self._write(tmp_path / "a.zip", (name, b"x"))
        with pytest.raises(NotAModelError):
            container.read(path)
        path = self._write(path, (name, b"x"), ("a/good.mlmodel", _SPEC))
        assert container.read(path) == linear_model()
        assert not list(tmp_path.rglob("evil*"))
        assert not Path("/tmp/evil.mlmodel").exists()

    def test_links_are_refused(self, tmp_path: Path) -> None:
        link = zipfile.ZipInfo("m.mlmodelc/model.mil")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        path = self._write(tmp_path / "a.zip", (link, b"/etc/passwd"), ("m.mlmodelc/coremldata.bin", b"x"))
        with pytest.raises(CorruptModelError, match=r"m\.mlmodelc/model\.mil in .* is a link"):
            container.read(path)

    def test_the_total_size_of_all_members_is_limited(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("coremlscope.formats.archives._BOMB_BYTES", 2**20)
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        parts = [(f"m.mlmodelc/{index}.bin", bytes(2**19)) for index in range(8)]
        path = self._write(tmp_path / "a.zip", ("m.mlmodelc/model.mil", b"x"), *parts)
        with pytest.raises(CorruptModelError, match="extracted size of 4194305 bytes, more than 100 times"):
            container.read(path)

    def test_the_free_space_is_checked(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = self._write(tmp_path / "a.zip", ("m.mlmodelc/model.mil", b"x" * 100))
        usage = type("Usage", (), {"free": 50})
        monkeypatch.setattr("coremlscope.formats.archives.shutil.disk_usage", lambda _: usage)
        with pytest.raises(CorruptModelError, match="more than is free"):
            container.read(path)

    def test_a_member_without_a_name(self, tmp_path: Path) -> None:
        path = self._write(tmp_path / "a.zip", ("x", b""), ("a/good.mlmodel", _SPEC))
        data = path.read_bytes()
        entry = data.index(b"PK\x01\x02")
        # The length of the name in the directory; the rest of it becomes an extra field.
        changed = data[: entry + 28] + b"\0\0\1\0" + data[entry + 32 :]
        path.write_bytes(changed)
        with pytest.raises(CorruptModelError, match=r"the zip archive .* cannot be read"):
            container.read(path)

    def test_a_name_that_is_a_file_and_a_folder(self, tmp_path: Path) -> None:
        path = self._write(
            tmp_path / "a.zip", ("m.mlmodelc/model.mil", b"x"), ("m.mlmodelc/model.mil/a", b"")
        )
        with pytest.raises(ModelError):
            container.read(path)

    def test_damaged_archives_are_errors_or_read(self, ipa: Path) -> None:
        whole, generator = ipa.read_bytes(), random.Random(0)
        for _ in range(150):
            data = bytearray(whole)
            for _ in range(generator.randint(1, 4)):
                data[generator.choice([generator.randrange(len(data)), -generator.randrange(1, 900)])] ^= 0xFF
            ipa.write_bytes(data[: generator.choice([len(data), generator.randrange(1, len(data))])])
            try:
                listing = coremlscope.list_models(ipa)
                container.read(f"{ipa}#Tiny")
            except CoremlscopeError:
                continue
            assert listing is not None

    def test_extracted_files_are_removed_when_the_process_ends(self, ipa: Path, tmp_path: Path) -> None:
        scratch = tmp_path / "scratch"
        scratch.mkdir()
        code = (
            "import os, pathlib, sys, coremlscope\n"
            "model = coremlscope.read(sys.argv[1])\n"
            "again = coremlscope.read(sys.argv[1])\n"
            "print(len([*pathlib.Path(os.environ['TMPDIR']).glob('*/[!.]*')]))\n"
        )
        ran = subprocess.run(
            [sys.executable, "-c", code, f"{ipa}#Detector.mlmodelc"],
            env={**os.environ, "TMPDIR": str(scratch)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert ran.stdout == "1\n", "it is extracted once"
        assert not list(scratch.iterdir())


class TestGzip:
    @pytest.mark.parametrize("name", ["model.mlmodel.gz", "model"])
    def test_a_model(self, name: str, tmp_path: Path) -> None:
        path = tmp_path / name
        path.write_bytes(gzip.compress(_SPEC))
        model = container.read(path)
        assert model == linear_model()
        assert (model.container, model.source) == ("mlmodel", path)
        assert container.sniff(path) == "gzip"

    def test_a_tar_archive(self, tmp_path: Path) -> None:
        (tmp_path / "m.tar.gz").write_bytes(gzip.compress(b"x"))
        with pytest.raises(NotAModelError, match="tar archive"):
            container.read(tmp_path / "m.tar.gz")

    def test_another_file(self, tmp_path: Path) -> None:
        (tmp_path / "m.gz").write_bytes(gzip.compress(b"hello"))
        with pytest.raises(NotAModelError, match="is not a Core ML model"):
            container.read(tmp_path / "m.gz")

    @pytest.mark.parametrize(
        "content", [gzip.compress(_SPEC)[:-20], b"\x1f\x8b\x08\x00", b"\x1f\x8bxxxxxxxxxxx"]
    )
    def test_damaged(self, content: bytes, tmp_path: Path) -> None:
        (tmp_path / "m.mlmodel.gz").write_bytes(content)
        with pytest.raises(CorruptModelError, match=r"gzip archive .* cannot be read"):
            container.read(tmp_path / "m.mlmodel.gz")

    def test_bombs(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "m.gz"
        path.write_bytes(gzip.compress(bytes(2**23)))
        monkeypatch.setattr("coremlscope.formats.container.MAX_SPEC_BYTES", 2**22)
        with pytest.raises(CorruptModelError, match=r"is larger than 4\.19 MB"):
            container.read(path)
        monkeypatch.setattr("coremlscope.formats.archives._BOMB_BYTES", 2**20)
        with pytest.raises(CorruptModelError, match="extracted size of"):
            container.read(path)


def test_a_model_of_a_bundle_is_a_frozen_copy(ipa: Path) -> None:
    model = container.read(f"{ipa}#Detector.mlmodelc")
    ipa.unlink()
    assert isinstance(model.content, ir.Program)
    constant = model.content.functions["main"].graph.ops[0].constant
    assert constant is not None
    assert constant.numpy().size


@pytest.mark.corpus
def test_compiled_models_of_an_app_are_listed(corpus: Path, tmp_path: Path) -> None:
    """A real folder of a repository, with models that Apple's compiler wrote."""
    listing = coremlscope.list_models(
        _zip(corpus / "models" / "getbouncer__cardscan-ios", tmp_path / "A.ipa")
    )
    assert listing is not None
    rows = {row.name: (row.kind, row.container) for row in listing.models if not row.problem}
    assert rows["FindFour.mlmodelc"] == ("neuralNetwork", "mlmodelc")
    assert rows["FindFour.mlmodel"] == ("neuralNetwork", "mlmodel")
    assert rows["SSDOcr-2.mlmodelc"] == ("neuralNetwork", "mlmodelc")
    assert len(listing.models) == 10


def test_a_model_in_an_archive_can_be_put_on_disk(ipa: Path, tmp_path: Path) -> None:
    for name in ("Detector.mlpackage", "Tiny", "Detector.mlmodelc"):
        place = container.on_disk(Path(f"{ipa}#{name}"))
        assert place.name.startswith(name)
        assert container.read(place) == linear_model()
    assert container.on_disk(place) == place
    with pytest.raises(NotAModelError, match="contains 3 models"):
        container.on_disk(ipa)
    compiled = coremlscope.compile(f"{ipa}#Tiny", tmp_path / "Tiny.mlmodelc")
    assert container.read(compiled).container == "mlmodelc"


def test_the_source_of_a_compiled_network_is_not_listed(tmp_path: Path) -> None:
    """The folder that this package writes for other models than ML Programs contains the model itself."""
    builder = network({"x": (3,)}, exact=True)
    builder.add_activation("relu", "RELU", "x", "y")
    (tmp_path / "net.mlmodel").write_bytes(builder.spec.SerializeToString())
    (tmp_path / "apps").mkdir()
    coremlscope.compile(tmp_path / "net.mlmodel", tmp_path / "apps" / "net.mlmodelc")
    bundle = open_bundle(tmp_path / "apps")
    assert bundle is not None
    assert [model.name for model in bundle.models] == ["net.mlmodelc"]
    archive = _zip(tmp_path / "apps", tmp_path / "A.ipa")
    listing = coremlscope.list_models(archive)
    assert listing is not None
    assert [(row.name, row.kind, row.problem) for row in listing.models] == [
        ("net.mlmodelc", "neuralNetwork", "")
    ]
    assert container.read(archive).kind == "neuralNetwork"


def test_names_that_no_system_opens_are_refused(tmp_path: Path) -> None:
    for number, name in enumerate(("a/" * 30_000 + "m.mlmodel", "a" * 60_000 + ".mlmodel")):
        path = tmp_path / f"{number}.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(name, b"")
        with pytest.raises(CorruptModelError, match="a name of 600"):
            open_bundle(path)
