"""Operations that the reference does not have, in a network of many."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from coremlscope import verify
from coremlscope.formats import container
from coremlscope.model.ir import Program
from coremlscope.verification.edits import insert_after, with_function
from tests.support.faulty_programs import PROGRAMS


@pytest.mark.parametrize(
    ("op_type", "parameters", "cause"),
    [
        ("mul", {"y": np.array(0.25, np.float32)}, "scale"),
        ("transpose", {"perm": np.array([0, 1, 3, 2], np.int32)}, "layout"),
    ],
)
def test_an_extra_operation_is_named_and_undone(
    op_type: str, parameters: dict[str, np.ndarray], cause: str, tmp_path: Path
) -> None:
    path, _ = next(planted for planted in PROGRAMS if planted.name == "dropped-scale").build(tmp_path)
    model = container.read(path)
    assert isinstance(model.content, Program)
    [function] = model.content.functions.values()
    wrong = insert_after(function, "stem", [(op_type, parameters)])
    found = verify(with_function(model, "main", wrong), model)
    assert (found.faults[0].name, found.faults[0].cause) == ("stem", cause)
    assert found.fixes[0].works
