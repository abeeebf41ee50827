"""Full disks, closed streams, and what is no file: results are kept, and one sentence says why."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from coremlscope.cli.main import main

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no such devices and limits")

_LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
from coremlscope.__main__ import main
sys.argv[:2] = ["coremlscope"]
sys.exit(main())
"""


def run_with_files_of(most_bytes: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the command line where no file may become larger, as on a disk that is nearly full."""
    command = [sys.executable, "-c", _LIMITED, str(most_bytes), *arguments]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}  # Python would leave half a module.
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


def test_a_disk_without_room_for_a_report_is_noticed_before_the_work(sample: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    done = run_with_files_of(1000, "profile", str(sample), "-o", str(target))
    assert (done.returncode, done.stdout) == (8, "")
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize("option", ["-o", "--json"])
def test_a_report_that_cannot_be_written_costs_neither_the_tables_nor_the_others(
    option: str, sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    full, other = tmp_path / "full.json", tmp_path / "other.json"
    full.symlink_to("/dev/full")
    assert main(["plan", str(sample), "--device", "m1", option, str(full), "-o", str(other)]) == 8
    assert "Neural Engine" in capsys.readouterr().out
    assert json.loads(other.read_text())["plans"]


def test_a_full_temporary_folder_keeps_what_needs_no_engine(sample: Path) -> None:
    done = run_with_files_of(100, "profile", str(sample), "--device", "m1", "--json", "-")
    assert done.returncode == 6
    assert "Traceback" not in done.stderr
    kept = json.loads(done.stdout)
    assert kept["plans"]
    assert kept["estimates"]
    assert [one["exit_code"] for one in kept["findings"] if one["id"] == "not-measured"] == [6]


@pytest.mark.parametrize(
    "arguments",
    [
        "compare {} --device m1 --iterations 3 --load-iterations 1 --compile-iterations 1",
        "sweep {} --device m1 -o results",
    ],
)
def test_closed_streams_do_not_matter(arguments: str, sample: Path, tmp_path: Path) -> None:
    verb = arguments.format(shlex.quote(str(sample)))
    command = f"exec {shlex.quote(sys.executable)} -m coremlscope {verb} <&- 2>&-"
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, stdout=subprocess.PIPE, timeout=120)
    assert done.returncode == 0
    assert done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("compare", "{}.json", "{}.json"),
        ("sweep", "{}.json", "--device", "m1"),
        ("sweep", "{}.toml", "--device", "m1"),
        ("import", "{}.json"),
        ("trace", "{}.json"),
        ("trace", "{}.xml"),
        ("doctor", "{}.log"),
        ("check", "{model}", "--max-size", "9GB", "--config", "{}.toml"),
        ("check", "{model}", "--max-size", "9GB", "--baseline", "{}.json"),
    ],
)
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_pipes_and_devices_are_no_files(
    arguments: tuple[str, ...],
    kind: str,
    sample: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for suffix in (".json", ".toml", ".xml", ".log"):
        if kind == "pipe":
            os.mkfifo(f"pipe{suffix}")
        else:
            Path(f"device{suffix}").symlink_to("/dev/zero")
    assert main([argument.format(kind, model=sample) for argument in arguments]) == 2
    assert "pipe or a device" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["inspect", "plan", "profile"])
def test_reports_do_not_say_where_a_person_keeps_models(verb: str, sample: Path, tmp_path: Path) -> None:
    options = {"inspect": [], "plan": ["--device", "m1"], "profile": ["--iterations", "3"]}[verb]
    page, saved = tmp_path / "r.html", tmp_path / "r.json"
    assert main([verb, str(sample), *options, "-o", str(page), "-o", str(saved), "--quiet"]) == 0
    for text in (page.read_text(), saved.read_text()):
        assert str(sample.parent) not in text


def test_models_of_the_same_name_keep_the_folders_that_distinguish_them(
    sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models = [shutil.copytree(sample, tmp_path / folder / "net.mlpackage") for folder in ("one", "two")]
    assert main(["compare", *map(str, models), "--device", "m1", "--json", "-"]) == 0
    profiles = json.loads(capsys.readouterr().out)["profiles"]
    assert [profile["model"]["path"] for profile in profiles] == ["one/net.mlpackage", "two/net.mlpackage"]
