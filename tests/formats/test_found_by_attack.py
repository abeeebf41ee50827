"""Damaged files that once ended in a traceback, a hang or much memory: each found by `make attack`."""

from __future__ import annotations

import msgspec.structs
import pytest

from coremlscope.base.errors import UnsupportedOpError
from coremlscope.formats import container
from coremlscope.formats.mlmodel import write_spec
from coremlscope.formats.values import write_immediate
from coremlscope.model import ir
from coremlscope.runtime.execution.lowering import _missing_weights_error, lower_function
from tests.support.constant_programs import linear_model, model_of
from tests.support.graphs import function, op, tensor, value
from tests.support.model_files import all_seeds, write_files


def test_types_of_operations_cannot_contain_terminal_controls() -> None:
    model = model_of({})
    x, y = value("x", tensor(1, 4)), value("y", tensor(1, 4))
    main = function((x,), (op("r\x1b[2Jange\n", y, x=x),), (x,))
    model = msgspec.structs.replace(model, content=ir.Program(functions={"main": main}))
    read = container.read(write_spec(model, write_immediate))
    with pytest.raises(UnsupportedOpError) as caught:
        lower_function(read)
    assert caught.value.message.isprintable()


def test_names_of_weight_files_cannot_contain_terminal_controls() -> None:
    model = msgspec.structs.replace(linear_model(), weight_files=(ir.WeightFile("weig\x01t.bin", None),))
    assert _missing_weights_error(model, 1).message.isprintable()


def test_undamaged_files_are_read(tmp_path) -> None:
    """The files that the attack damages are intact; otherwise it would attack nothing."""
    for index, (name, files) in enumerate(all_seeds().items()):
        folder = tmp_path / str(index)
        path = write_files(files, folder)
        if not name.startswith("import ") and name != "two_delegates.pte":
            assert container.read(path).description.functions
