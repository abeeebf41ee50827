"""A sample of the attack with damaged files; `make attack` runs more."""

from __future__ import annotations

from tests.long.attack.__main__ import attack


def test_damaged_files_give_clear_errors() -> None:
    tally = attack(400, seed=11)
    assert not tally.faults, "\n".join(tally.faults)
    assert sum(tally.files.values()) == 400
    assert tally.outcomes["used"] > 20
    assert tally.outcomes["refused"] > 200
