"""The tool that records facts on a Mac: its commands end, and its probe of Core ML runs over the drop-in."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from coremlscope.formats.compiled.writing import write_compiled
from tests.support import converted_models
from tests.support.preloaded import preloaded_child

_ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mac_facts", _ROOT / "tools" / "mac_facts.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_commands_are_recorded_however_they_end(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.txt"
    assert tool.record([sys.executable, "-c", "import sys; print(1); sys.exit(3)"], file) == 3
    assert file.read_text().endswith("exit status 3\n\n1\n")
    assert tool.record(["no-such-command"], file) == 127
    monkeypatch.setattr(tool, "_LIMIT_S", 0.5)
    assert tool.record([sys.executable, "-c", "import time; time.sleep(60)"], file) == 124


def test_everything_is_recorded(tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no command exists and nothing is compiled, as without a Mac."""
    monkeypatch.setattr(tool, "COMMANDS", {"system": ("no-such-command",)})
    monkeypatch.setattr(tool, "_LOG", ("no-such-command",))
    monkeypatch.setattr(tool, "_PROBE", "print(1)")
    assert tool.main([str(tmp_path / "facts")]) == 0
    summary = json.loads((tmp_path / "facts" / "summary.json").read_text())
    assert (summary["system"], summary["log"]) == (127, 127)


@pytest.mark.usefixtures("_preloading")
def test_the_probe_asks_core_ml(tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package, compiled = tmp_path / "mlp.mlpackage", tmp_path / "mlp.mlmodelc"
    converted_models.mlp().save(str(package))
    install = "import coremlscope; coremlscope.install()\n"
    write_compiled(package, compiled)
    record = tool.record

    def record_forked(command: list[str], *rest: object) -> object:
        _, _, probe, *arguments = command
        return record([*preloaded_child(install + probe), *arguments], *rest)

    monkeypatch.setattr(tool, "record", record_forked)
    tool.record_caches(compiled, tmp_path)
    for step in ("first", "again", "copied"):
        status, _, output = (
            (tmp_path / f"load-{step}.txt").read_text().partition("exit status ")[2].partition("\n")
        )
        assert status == "0", output
        found = json.loads(output[output.index("{") :])
        assert found["load_ns"] > 0
        assert 0 < found["with_usage"] <= found["operations"] - found["constants"]
        assert found["preferred"] == ["MLCPUComputeDevice"]
        assert (tmp_path / f"cache-{step}.txt").exists()
