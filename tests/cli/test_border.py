"""Whatever goes wrong in a verb or in a job of it is one sentence, with an exit code."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import coremltools as ct
import msgspec.structs
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb
from coremltools.models.datatypes import Array
from coremltools.models.neural_network import NeuralNetworkBuilder

from coremlscope.base.errors import OutputError, UnforeseenError, known_error
from coremlscope.base.processes import channel
from coremlscope.cli import VERBS, find_command, main
from coremlscope.formats import container
from coremlscope.results.profile import write_profiles
from coremlscope.studies.sweep import expansion, work
from coremlscope.studies.sweep.jobs import SweepJob, SweptModel, WantedResult
from coremlscope.studies.variants import worker
from tests.support.foreign_errors import FOREIGN, SYSTEM, raising
from tests.support.profiles import small_profile


def _run(verb: str, error: Exception, options: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """Runs a verb that takes one file and then raises an exception."""
    changed = msgspec.structs.replace(
        find_command(verb), configure=lambda parser: parser.add_argument("model"), run=raising(error)
    )
    monkeypatch.setattr(
        sys.modules["coremlscope.cli.main"],
        "find_command",
        lambda name: changed if name == verb else find_command(name),
    )
    return main([verb, "net.mlpackage", *options])


@pytest.mark.parametrize("verb", VERBS)
def test_every_exception_in_a_verb_is_a_sentence(
    verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for error in (*FOREIGN, *SYSTEM, MemoryError()):
        code = _run(verb, error, [], monkeypatch)
        printed = capsys.readouterr()
        sentence = printed.err.splitlines()[0]
        assert printed.out == ""
        assert "Traceback" not in printed.err
        assert sentence.startswith("error: ")
        if error in FOREIGN:
            assert code == UnforeseenError.exit_code
            assert "net.mlpackage" in sentence
            assert type(error).__name__ in sentence
        else:
            assert code == 1
        if isinstance(error, OSError):
            assert "place/file.bin" in sentence
            assert str(error.strerror) in sentence


def test_a_traceback_is_printed_on_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = _run("inspect", KeyError("x"), ["--debug"], monkeypatch)
    printed = capsys.readouterr().err
    assert code == UnforeseenError.exit_code
    assert "Traceback (most recent call last)" in printed
    assert "foreign_errors.py" in printed


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_a_disk_that_takes_no_more_is_an_error_of_the_output(code: int) -> None:
    assert isinstance(known_error(OSError(code, os.strerror(code), "x")), OutputError)


@pytest.mark.parametrize("error", [*FOREIGN, *SYSTEM, MemoryError()], ids=lambda error: type(error).__name__)
def test_an_exception_in_a_job_of_a_sweep_fails_its_row(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "_estimate", raising(error))
    case = WantedResult(key="k", device="m1", os="", compute_units="all")
    subject = SweptModel(name="net.mlpackage", source=b"", content="c")
    (row,) = work.run_job(SweepJob(subject=subject, cases=(case,)))
    assert (row.failure, row.exit_code) == (
        known_error(error, "net.mlpackage").message,
        known_error(error).exit_code,
    )


@pytest.mark.parametrize("error", [*FOREIGN, *SYSTEM, MemoryError()], ids=lambda error: type(error).__name__)
def test_an_exception_in_a_job_of_what_if_fails_its_variant(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "make_variant", raising(error))
    job = worker.VariantJob(model=Path("net.mlpackage"), is_network=False, transform=None, question=None)  # type: ignore[arg-type]
    answers: list[Mapping[str, Any]] = []
    monkeypatch.setattr(worker, "jobs", lambda: iter([job]))
    monkeypatch.setattr(channel, "send", lambda **values: answers.append(values))
    assert worker.main() == 0
    (answer,) = answers
    assert answer["message"]
    if error in FOREIGN:
        assert answer["error"] == UnforeseenError.__name__


@pytest.mark.parametrize(
    "line", ["compare --iterations 2", "check --max-size 9MB", "sweep --device m1 -o out"]
)
def test_a_model_that_makes_a_verb_fail_does_not_stop_the_others(
    line: str,
    sample: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.mlmodel").write_bytes(b"bad")
    for module, name in ((container, "read"), (expansion, "content_of_path")):
        work_on = getattr(module, name)

        def fail_for_one(source: Any, *more: Any, work_on: Callable[..., Any] = work_on) -> Any:
            return {}["x"] if "bad" in str(source) else work_on(source, *more)

        monkeypatch.setattr(module, name, fail_for_one)
    verb, *options = line.split()
    codes = [main([verb, *names, *options]) for names in (["bad.mlmodel", str(sample)], [str(sample)])]
    assert codes[0] != 0
    assert codes[1] == 0
    printed = "".join(capsys.readouterr())
    assert "please report it" in " ".join(printed.split())
    assert "sample" in printed or "results" in printed
    assert "Traceback" not in printed


#: Files that a person may have, by what is wrong with their place.
_PLACES: Mapping[str, Callable[[Path], Path]] = {
    "long name": lambda folder: folder / ("a" * 300),
    "circle": lambda folder: _circle(folder / "circle"),
    "inside a file": lambda folder: _file(folder / "file") / "x",
}


def _circle(path: Path) -> Path:
    path.symlink_to(path.name)
    return path


def _file(path: Path) -> Path:
    path.write_bytes(b"")
    return path


#: What each verb that reads files is given after the file.
_READERS: Mapping[str, tuple[str, list[str]]] = {
    "inspect": (".mlmodel", []),
    "plan": (".mlmodel", ["--device", "m1"]),
    "estimate": (".mlmodel", ["--device", "m1"]),
    "export": (".mlmodel", ["x.onnx"]),
    "compile": (".mlmodel", []),
    "compare": (".json", ["saved.json"]),
    "import": (".json", []),
    "measurements add": (".csv", []),
    "doctor": (".txt", []),
    "trace": (".json", []),
    "convert": (".pt2", []),
    "run": (".py", []),
    "sweep": (".toml", ["-o", "results", "--device", "m1"]),
    "check": (".mlmodel", ["--max-size", "1MB"]),
}


@pytest.mark.parametrize("verb", _READERS)
def test_a_place_that_cannot_be_read_is_a_sentence(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_profiles(Path("saved.json"), [small_profile()])
    suffix, more = _READERS[verb]
    for number, (name, make) in enumerate(_PLACES.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        place = make(folder)
        code = main([*verb.split(), f"{place}{suffix}" if name != "circle" else str(place), *more])
        printed = capsys.readouterr()
        assert 1 <= code < UnforeseenError.exit_code, (name, printed.err)
        assert code == 3 or suffix != ".mlmodel" or verb == "sweep", (name, printed.err)
        assert "Traceback" not in printed.err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("verb", _READERS)
def test_a_pipe_or_a_device_is_refused_at_once(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_profiles(Path("saved.json"), [small_profile()])
    suffix, more = _READERS[verb]
    os.mkfifo(f"pipe{suffix}")
    Path(f"device{suffix}").symlink_to("/dev/zero")
    for name in ("pipe", "device"):
        code = main([*verb.split(), f"{name}{suffix}", *more])
        assert 1 <= code < UnforeseenError.exit_code
        assert f"{name}{suffix}" in "".join(capsys.readouterr())


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="needs /dev/fd")
def test_a_pipe_that_is_open_already_is_read() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"content")
    os.close(writing)
    assert main(["doctor", f"/dev/fd/{reading}"]) == 0
    os.close(reading)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the current folder cannot be removed")
@pytest.mark.parametrize("line", ["inspect x.mlmodel", "plan x.mlmodel --device m1", "profile x.mlmodel"])
def test_a_working_folder_that_was_deleted(line: str, tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    code = (
        f"import os, sys; os.chdir({str(folder)!r}); os.rmdir({str(folder)!r}); "
        f"from coremlscope.cli import main; sys.exit(main({line.split()!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode in (1, 3)
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


def _without_groups(path: Path) -> None:
    """Writes a convolution in 0 groups."""

    @mb.program(input_specs=[mb.TensorSpec((1, 3, 8, 8))])
    def program(x: Any) -> Any:
        return mb.conv(x=x, weight=np.ones((4, 3, 3, 3), np.float32), groups=1, name="y")

    made = ct.convert(program, skip_model_load=True, compute_precision=ct.precision.FLOAT32)
    spec = made.get_spec()
    (block,) = spec.mlProgram.functions["main"].block_specializations.values()
    for op in block.operations:
        if op.type == "const" and "groups" in op.outputs[0].name:
            op.attributes["val"].immediateValue.tensor.ints.values[0] = 0
    ct.models.MLModel(spec, weights_dir=made.weights_dir, skip_model_load=True).save(str(path))


def _upsampled(path: Path) -> None:
    """Writes a network whose last image has 2^400 rows."""
    builder = NeuralNetworkBuilder(
        [("t0", Array(1, 1, 1))], [("t400", None)], disable_rank5_shape_mapping=True
    )
    for number in range(400):
        builder.add_upsample(f"u{number}", 2, 2, f"t{number}", f"t{number + 1}")
    path.write_bytes(builder.spec.SerializeToString())


def _of_many_dimensions(path: Path) -> None:
    """Writes a network on an array of 65 dimensions."""
    builder = NeuralNetworkBuilder([("x", Array(1))], [("y", None)], disable_rank5_shape_mapping=True)
    builder.add_reshape_static("r", "x", "z", [1] * 65)
    builder.add_activation("a", "RELU", "z", "y")
    path.write_bytes(builder.spec.SerializeToString())


@pytest.mark.parametrize(
    ("write", "name"),
    [(_without_groups, "m.mlpackage"), (_upsampled, "m.mlmodel"), (_of_many_dimensions, "m.mlmodel")],
)
def test_models_beyond_all_numbers_have_a_plan(
    write: Callable[[Path], None], name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / name)
    for line in (["inspect"], ["plan", "--device", "m1"], ["estimate", "--device", "m1"]):
        assert main([line[0], str(tmp_path / name), *line[1:]]) == 0
    assert main(["profile", str(tmp_path / name), "--quiet"]) in (3, 5, 6)
    assert "Traceback" not in capsys.readouterr().err
