"""What a release is made by: the section of changes, and the results file of a run on a Mac."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from coremlscope.cli import main
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.formats.sample import sample_model

_ROOT = Path(__file__).resolve().parents[1]


def _tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, _ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_release_moves_its_fragments_above_the_release_before(tmp_path: Path) -> None:
    (tmp_path / "changes").mkdir()
    (tmp_path / "CHANGELOG.md").write_text("# Changes\n\nText.\n\n## 1.0.0 (2026-01-01)\n\n- Old.\n")
    for name, text in {
        "b.added.md": "B\nb.\n",
        "a.added.md": "A.\n",
        "c.fixed.md": "C.\n",
        "README.md": "",
    }.items():
        (tmp_path / "changes" / name).write_text(text)
    _tool("make_changelog").release("1.1.0", "2026-02-02", tmp_path)
    assert (tmp_path / "CHANGELOG.md").read_text() == (
        "# Changes\n\nText.\n\n## 1.1.0 (2026-02-02)\n\n### Added\n\n- A.\n- B\n  b.\n\n### Fixed\n\n- C.\n"
        "\n## 1.0.0 (2026-01-01)\n\n- Old.\n"
    )
    assert [file.name for file in (tmp_path / "changes").iterdir()] == ["README.md"]


def test_the_fragments_are_of_known_kinds() -> None:
    tool = _tool("make_changelog")
    text = tool.section("Next", _ROOT / "changes")
    assert text.count("\n- ") >= len(tool.fragments_of(_ROOT / "changes"))


def test_the_results_of_a_run_can_be_imported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, profile, doctor, found = (
        tmp_path / name for name in ("s.mlpackage", "p.json", "d.json", "f.json")
    )
    write_mlpackage(sample_model(size=32, width=0.5, classes=10), model)
    assert main(["plan", str(model), "--device", "m1", "--quiet", "-o", str(profile)]) == 0
    main(["doctor", "--json", str(doctor)])
    steps = tmp_path / "steps.txt"
    steps.write_text(
        "0 (expected 0): .venv/bin/coremlscope plan out/s.mlpackage\n"
        f"6 (expected 0): .venv/bin/coremlscope verify {Path.home()}/private.mlpackage\n"
        "0 (expected 0): .venv/bin/python tools/mac_models.py out\n"
    )
    _tool("mac_results").join(profile, doctor, steps, found)
    assert str(Path.home()) not in found.read_text(encoding="utf-8")
    capsys.readouterr()
    assert main(["import", str(found), "--json", "-"]) == 0
    findings = json.loads(capsys.readouterr().out)["findings"]
    checks = json.loads(doctor.read_text())["checks"]
    assert sum(one["id"] == "doctor" for one in findings) == len(checks)
    told = {one["text"]: one["id"] for one in findings if "confirmed" in one["id"]}
    assert len(told) == len(_tool("mac_results").MARKS)
    (settled,) = [text for text, id_ in told.items() if id_ == "confirmed"]
    assert "Core ML's own plan" in settled
    failed = (
        "outputs of Core ML next to a reference; not as expected ended `coremlscope verify private.mlpackage`"
    )
    assert told[f"Not yet confirmed: {failed}."] == "not-confirmed"
