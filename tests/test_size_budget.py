"""The concepts of each room stay within the budget that `tests/budget.toml` holds."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

_ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("budget", _ROOT / "tools" / "budget.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_no_room_exceeds_its_budget(tool: ModuleType) -> None:
    lines = tool.exceeded(tool.count_rooms(), tool.read_budget(_ROOT / "tests" / "budget.toml"))
    assert not lines, "\n".join(
        [
            "",
            *lines,
            "Take something away, or raise the budget by `python tools/budget.py --write` and give the",
            "reason in the message of the commit. The same command lowers it after something went.",
        ]
    )


_SOURCE = """
LIMIT, _MOST = 3, -2.5  # a comment
SCALE: float = 1 / 3
NAME = "text"
class A:
    def public(self): pass
    def _private(self): pass
def run(model, parser):
    parser.add_argument("--twice")
    if isinstance(model.content, (ir.Program, Pipeline)) or model.content.kind == "tree":
        yield Finding(id="one", text="")
        yield Finding(id="one", text="again")
    match model.content:
        case Opaque(): pass
"""


def test_what_is_counted(tool: ModuleType, tmp_path: Path) -> None:
    room = tmp_path / "src" / "coremlscope" / "room"
    room.mkdir(parents=True)
    (room / "module.py").write_text(_SOURCE)
    counts = tool.count_rooms(tmp_path)
    tokens = counts["room"].pop("tokens")
    assert counts == {
        "room": {
            "classes": 1,
            "functions": 2,
            "constants": 3,
            "options": 1,
            "findings": 1,
            "kind_checks": 3,
        }
    }
    (room / "module.py").write_text(_SOURCE.replace("  # a comment", "").replace("\n\n", "\n"))
    assert tool.count_rooms(tmp_path)["room"]["tokens"] == tokens
    assert tool.exceeded(counts, {"room": {**counts["room"], "classes": 0}}) == [
        "room: 1 classes, 1 above the budget of 0"
    ]
    assert len(tool.exceeded(counts, {})) == 6
