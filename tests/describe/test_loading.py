"""Systems that load a model."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from coremlscope.describe.loading import find_load_problem
from coremlscope.devices.release import OSRelease, ios, macos
from coremlscope.model import ir
from tests.forecast.test_planner import program
from tests.support.pipelines import pipeline


def with_function(model: ir.Model, opset: str, *types: str) -> ir.Model:
    """Returns the model with an opset, and with operations of other types."""
    assert isinstance(model.content, ir.Program)
    function = model.content.functions["main"]
    ops = [replace(op, type=type_) for op, type_ in zip(function.graph.ops, types, strict=False)]
    graph = replace(function.graph, ops=(*ops, *list(function.graph.ops)[len(ops) :]))
    content = replace(model.content, functions={"main": replace(function, opset=opset, graph=graph)})
    return replace(model, spec_version=6, content=content)


@pytest.mark.parametrize(
    ("opset", "types", "text"),
    [
        ("CoreML5", (), ""),
        ("CoreML7", (), "the opset CoreML7 needs iOS 17"),
        ("CoreML5", ("slice_update",), "operations of a newer opset (slice_update) need iOS 18"),
        ("CoreML7", ("resize",), "the opset CoreML7 needs iOS 17"),
    ],
)
def test_what_a_program_needs(opset: str, types: tuple[str, ...], text: str) -> None:
    problem = find_load_problem(with_function(program("main"), opset, *types), ios(16))
    assert (problem.text if problem else "") == text


def test_specification_versions() -> None:
    model = replace(program("main"), spec_version=99)
    problem = find_load_problem(model, macos(27))
    assert problem is not None
    assert problem.needed is None
    assert problem.text == "specification version 99 needs a newer macOS than is known here"


@pytest.mark.parametrize(("name", "shown"), [("encoder", "the stage encoder"), ("", "stage 0")])
def test_stages_are_asked_as_well(name: str, shown: str) -> None:
    inner = replace(program("main"), spec_version=9)
    problem = find_load_problem(replace(pipeline([], [], inner, names=[name]), spec_version=5), ios(17))
    assert problem is not None
    assert problem.text == f"specification version 9 of {shown} needs iOS 18"
    assert problem.needed == OSRelease("iOS", 18)
