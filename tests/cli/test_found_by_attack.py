"""Files that once ended in a traceback; each was found by `make attack`, `make attack-verbs` or `make fuzz`.

They are stored as `.bin`, since they are damaged files of the kinds that tools look for in a checkout.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from coremlscope.cli.main import main

_FOLDER = Path(__file__).parents[1] / "data" / "found"
#: The file, the verb that reads it, the exit code, and a part of the sentence.
_FOUND = (
    ("classify-without-classes.mlmodel", "inspect", 0, ""),
    ("not-utf-8.json", "trace", 2, "is not valid JSON"),
    ("runner-without-measurements.json", "import", 2, "holds no results"),
)


@pytest.mark.parametrize(("file", "verb", "code", "text"), _FOUND)
def test_a_file_that_was_found(
    file: str, verb: str, code: int, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / file
    copy.write_bytes((_FOLDER / f"{file}.bin").read_bytes())
    assert main([verb, str(copy)]) == code
    assert text in capsys.readouterr().err


def test_every_file_that_was_found_is_read() -> None:
    assert {path.stem for path in _FOLDER.iterdir()} == {file for file, *_ in _FOUND}
