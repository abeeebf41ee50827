from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from coremlscope.__main__ import main as start
from coremlscope.cli import VERBS, main, terminal
from coremlscope.cli.main import _REPLACED
from coremlscope.results.profile import read_profiles
from tests.support.aicode import write_numbered

#: A Core AI model; only its name and that it is a folder matter.
_CORE_AI = {
    "verify": ("--reference is missing", "--reference coreai runs this model by Core AI's interpreter"),
    "measurements add": (
        "is a folder without anything that is imported",
        "give a saved profile, or what a Mac",
    ),
    "import": ("is a folder without anything that is imported", "give a saved profile, or what a Mac"),
    "convert": ("is a model, and only programs of PyTorch are converted", "give the .pt2 file"),
    "compile": ("is a Core AI model, which has no .mlmodelc form", "`xcrun coreai-build compile`"),
    "what-if": ("this is a Core AI model", "give the Core ML model, which `coremlscope convert"),
    "isolate": ("-o/--output is missing", "see `coremlscope isolate --help`"),
    "check": ("there is no limit to check", "give limits such as --max-size 20MB"),
}


def fail(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Exit code, sentence and hint; nothing else may be printed."""
    code = main(arguments)
    printed = capsys.readouterr()
    assert printed.out == ""
    error, hint = printed.err.splitlines()
    return code, error.removeprefix("error: "), hint.removeprefix("hint: ")


@pytest.mark.parametrize(
    ("line", "error", "hint"),
    [
        ("inspekt x", "coremlscope has no verb 'inspekt'", "did you mean `coremlscope inspect`?"),
        (
            "qqq",
            "coremlscope has no verb 'qqq'",
            f"the verbs are {', '.join(VERBS)}",
        ),
        ("bisect m --unit gpu", "coremlscope has no verb 'bisect' any more", f"`{_REPLACED['bisect']}`"),
        ("evidence --help", "coremlscope has no verb 'evidence' any more", f"`{_REPLACED['evidence']}`"),
        ("inspect", "MODEL is missing", "see `coremlscope inspect --help`"),
        ("export", "MODEL, OUT.onnx are missing", "see `coremlscope export --help`"),
        ("profile m --iterations 0", "--iterations: 0 is too small", "give 1 or more"),
        ("profile m --seed x", "--seed: 'x' is not a whole number", "give 0 or more"),
        ("profile m --iterations", "--iterations: expected one argument", "see `coremlscope profile --help`"),
        (
            "profile m --compute-units cpu_and_npu",
            "--compute-units: invalid compute units 'cpu_and_npu'",
            "did you mean cpu_and_gpu? (one of all, cpu_and_ne, cpu_and_gpu, cpu_only, every)",
        ),
        (
            "profile m --iteration 5",
            "`coremlscope profile` has no option '--iteration'",
            "did you mean --iterations?",
        ),
        (
            "profile m --repeat 5",
            "`coremlscope profile` has no option '--repeat'",
            "see `coremlscope profile --help`",
        ),
        (
            "profile m extra",
            "`coremlscope profile` takes no further argument 'extra'",
            "see `coremlscope profile --help`",
        ),
        (
            "export m.mlmodel -o m.onnx",
            "`coremlscope export` has no option '-o'",
            "name the output last: `coremlscope export MODEL OUT.onnx`",
        ),
        ("plan m.mlmodel -x", "`coremlscope plan` has no option '-x'", "see `coremlscope plan --help`"),
        ("--verson", "`coremlscope` has no option '--verson'", "did you mean --version?"),
        ("profile m --shape x", "--shape: 'x' does not name an input", "write it as NAME=1x3x224x224"),
        ("profile m --shape x=1x0", "--shape: '1x0' is not a shape", "write it as NAME=1x3x224x224"),
        ("profile m --shape x=wide", "--shape: 'wide' is not a shape", "write it as NAME=1x3x224x224"),
        ("inspect m -o r.jsn", "-o/--output: no report format has the suffix '.jsn'", "did you mean r.json?"),
        (
            "predict m --resize crop",
            "--resize: invalid resize method 'crop'",
            "did you mean center-crop? (one of scale-fill, scale-fit, center-crop)",
        ),
        ("export m m.onx", "m.onx does not end in .onnx", "did you mean m.onnx?"),
        (
            "schema extra",
            "`coremlscope schema` takes no further argument 'extra'",
            "see `coremlscope schema --help`",
        ),
        (
            "plan m --device m1 -o r.docx",
            "-o/--output: no report format has the suffix '.docx'",
            "use one of",
        ),
        ("run", "SCRIPT.py is missing", "see `coremlscope run --help`"),
        ("run nowhere.py", "the script nowhere.py does not exist", "check the path"),
        (
            "sweep models -o page.html",
            "-o/--output: page.html is the name of a file, and results are a folder",
            "choose a folder; it gets estimates.parquet, plans.parquet, times.parquet and results.html",
        ),
    ],
)
def test_usage(line: str, error: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, message, advice = fail(line.split(), capsys)
    assert (code, message) == (2, error)
    assert advice.startswith(hint)


def test_no_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("nothing")
    for verb in (["inspect"], ["profile"], ["predict"]):
        assert fail([*verb, str(tmp_path / "absent.mlpackage")], capsys)[0] == 3
        assert fail([*verb, str(text)], capsys)[0] == 3


def test_wrong_inputs(sample: Path, photo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(sample)
    expected = (4, "unknown input 'imag'", "did you mean 'image'?")
    assert fail(["predict", model, "--input", f"imag={photo}"], capsys) == expected
    assert fail(["predict", model], capsys)[:2] == (4, "the input 'image' (image RGB 32×32) is missing")
    code, _, hint = fail(["predict", model, "--input", f"image={photo.with_name('phot.png')}"], capsys)
    assert (code, hint) == (4, f"did you mean {photo}?")
    code, error, _ = fail(["profile", model, "--shape", "image=16x16"], capsys)
    assert (code, error) == (4, "'image' has the fixed shape 32×32, not 16×16")
    code, error, _ = fail(["profile", model, "--function", "other"], capsys)
    assert (code, error) == (2, "unknown function 'other'")


def test_absent_weights(hollow: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, hint = fail(["profile", str(hollow)], capsys)
    assert code == 3
    assert "--random-weights" in hint
    assert fail(["export", str(hollow), str(tmp_path / "x.onnx")], capsys)[0] == 3


def test_reports_of_a_model_that_cannot_be_run(
    hollow: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, saved = tmp_path / "report.html", tmp_path / "report.json"
    asked = ["profile", str(hollow), "-o", str(page), "--json", str(saved), "--device", "m1", "--quiet"]
    code, error, hint = fail(asked, capsys)
    assert (code, error.partition(":")[0]) == (3, "The model was not measured")
    assert "--random-weights" in hint
    (profile,) = read_profiles(saved)
    assert profile.measurements == ()
    assert (profile.plans[0].device, profile.estimates[0].device) == ("M1", "M1")
    failure = next(finding for finding in profile.findings if finding.id == "not-measured")
    assert (failure.severity, failure.exit_code, failure.text) == ("error", 3, error)
    assert "The model was not measured" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("terminals", "options", "is_in_tables", "is_error"),
    [
        (("stdout", "stderr"), [], True, False),
        (("stdout", "stderr"), ["--quiet"], False, True),
        (("stderr",), [], True, True),
        (("stdout",), [], True, True),
    ],
)
def test_a_terminal_shows_once_that_a_model_cannot_be_run(
    terminals: tuple[str, ...],
    options: list[str],
    is_in_tables: bool,
    is_error: bool,
    hollow: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in terminals:
        monkeypatch.setattr(f"sys.{name}.isatty", lambda: True)
    assert main(["profile", str(hollow), "-o", str(tmp_path / "report.html"), *options]) == 3
    printed = capsys.readouterr()
    assert ("The model was not measured" in printed.out) == is_in_tables
    assert ("The model was not measured" in printed.err) == is_error


def test_results_that_cannot_be_written(
    sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (
        ["inspect", str(sample), "-o", str(tmp_path / "no" / "r.json")],
        ["inspect", str(sample), "--json", str(tmp_path)],
        ["export", str(sample), str(tmp_path / "no" / "m.onnx")],
    ):
        assert fail(arguments, capsys)[0] == 8


def test_unwritable_reports_stop_before_the_work(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("coremlscope.api.read", lambda path: pytest.fail("the work began"))
    report = tmp_path / "no" / "r.md"
    for verb in ("profile", "plan", "estimate"):
        code, error, hint = fail([verb, str(sample), "-o", str(report)], capsys)
        assert (code, hint) == (8, "create the folder first")
        assert error == f"{report} cannot be written: the folder {report.parent} does not exist"
    assert fail(["predict", str(sample), "--json", str(tmp_path)], capsys)[0] == 8


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_full_and_closed_output(sample: Path) -> None:
    for target, words in (("/dev/full", b"cannot be written"), ("&-", b"is closed")):
        line = f'"{sys.executable}" -m coremlscope inspect "{sample}" >{target}'
        done = subprocess.run(line, shell=True, capture_output=True, timeout=60)
        assert done.returncode == 8
        assert done.stderr.startswith(b"error: standard output " + words)
        assert b"Traceback" not in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell of Unix")
@pytest.mark.parametrize("closed", ["2>&-", "2>/dev/full", "<&- 2>&-"])
@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("inspect MODEL", 0),
        ("profile MODEL --iterations 2 --load-iterations 1 --compile-iterations 1", 0),
        ("inspect nowhere", 3),
        ("compare nowhere", 3),
    ],
)
def test_closed_and_full_standard_error(line: str, code: int, closed: str, sample: Path) -> None:
    if "/dev/full" in closed and not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    command = f'"{sys.executable}" -m coremlscope {line.replace("MODEL", str(sample))} {closed}'
    done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, timeout=120)
    assert done.returncode == code
    assert bool(done.stdout) == (code == 0)


def test_names_in_errors_steer_no_terminal(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, error, _ = fail(["inspect", "\x1b[31mred\nline"], capsys)
    assert (code, error) == (3, "the path \\x1b[31mred line does not exist")


def test_interrupt(sample: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("coremlscope.api.inspect", interrupt)
    assert main(["inspect", str(sample)]) == 130
    assert capsys.readouterr() == ("", "interrupted\n")


def test_broken_pipe(sample: Path) -> None:
    command = [sys.executable, "-m", "coremlscope", "inspect", str(sample), "--ops"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.wait(60) == 141
        assert process.stderr.read() == b""


def test_plain_characters(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    command = [sys.executable, "-m", "coremlscope", "inspect", str(sample)]
    done = subprocess.run(command, capture_output=True, check=True)
    words = b" ".join(done.stdout.split())
    assert b"image RGB 32x32" in words
    assert b"0...255 becomes -2.12...2.62" in words


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["plan", "--device", "m1"], b"@ chosen  o supported  - not supported  ? no rule"),
        (["check", "--max-size", "1kB"], b"x fail: "),
    ],
)
def test_plain_marks(
    arguments: list[str], expected: bytes, sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr("sys.stdout", printed)
    main([*arguments, str(sample)])
    text = printed.buffer.getvalue()  # type: ignore[attr-defined]
    assert [part for part in expected.split(b"  ") if part not in text] == []


def test_every_mark_of_the_terminal_has_plain_characters() -> None:
    source = Path(terminal.__file__).parents[1]
    files = [
        *(source / "cli").glob("*.py"),
        *(source / "reports").glob("*.py"),
        *(source / "reports" / "program").glob("*.py"),
        *(source / "reports" / "terminal").glob("*.py"),
        source / "base" / "units.py",
    ]
    marks = {mark for file in files for mark in file.read_text(encoding="utf-8") if not mark.isascii()}
    assert {mark for mark in marks if not mark.translate(terminal._PLAIN).isascii()} == set()


@pytest.mark.parametrize(
    ("variables", "is_terminal", "expected"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"TERM": "dumb"}, True, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False),
    ],
)
def test_colour(
    variables: dict[str, str], is_terminal: bool, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)
    assert terminal.has_color() is expected


@pytest.mark.parametrize("verb", ["inspect", "profile", "check", "compare", "estimate", "import"])
def test_an_empty_path_is_not_this_folder(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, error, hint = fail([verb, ""], capsys)
    assert (code, hint) == (2, "give a path, or . for this folder")
    assert error.endswith(": the path is empty")


def test_what_is_read_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.json").write_text("[]", encoding="utf-8")
    Path("b.json").symlink_to("a.json")
    for line in (
        "compare a.json c.json -o a.json",
        "compare c.json a.json --json b.json",
        "import b.json -o a.json",
    ):
        code, error, hint = fail(line.split(), capsys)
        assert (code, hint) == (8, "choose another name")
        assert error.endswith("is read, and writing it would replace it")
    assert Path("a.json").read_text(encoding="utf-8") == "[]"


def test_ctrl_c_during_the_imports(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupted:
        def __getattr__(self, name: str) -> None:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "coremlscope.cli", Interrupted())
    assert start() == 130
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.parametrize("verb", _CORE_AI)
def test_verbs_that_are_not_for_core_ai_models(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    model = write_numbered(tmp_path / "net.aimodel")
    device = ["--device", "m4"] if verb in ("measurements add", "what-if") else []
    code, error, hint = fail([*verb.split(), str(model), *device], capsys)
    expected, expected_hint = _CORE_AI[verb]
    assert code in (2, 5)
    assert expected in error
    assert expected_hint in hint
