"""Every row of the table of classical models."""

from __future__ import annotations

import ast
from contextlib import closing
from pathlib import Path

import pytest

import coremlscope
from coremlscope.describe.model import describe_model
from coremlscope.formats.external import EXTERNAL_READERS
from coremlscope.model.features import dummy_values
from coremlscope.model.ir import Classical
from coremlscope.model.schema import message_class
from coremlscope.ops.classical import classical_types
from coremlscope.ops.classical.function import with_absent_values
from coremlscope.runtime.execution.binding import choose_function
from coremlscope.runtime.execution.executable import compile_model
from tests.support.classical_examples import EXAMPLES
from tests.support.classical_specs import read_spec

_ROOM = Path(coremlscope.__file__).parent / "ops" / "classical"
#: What is no classical model, besides models whose file does not hold what computes them.
_OTHER_KINDS = {
    "mlProgram",
    "neuralNetwork",
    "neuralNetworkClassifier",
    "neuralNetworkRegressor",
    "pipeline",
    "pipelineClassifier",
    "pipelineRegressor",
}

#: Apple publishes the message of this kind, but not what the model computes.
_UNSPECIFIED_KINDS = {"classConfidenceThresholding"}

CLASSICAL_TYPES = classical_types()
every_kind = pytest.mark.parametrize("kind", sorted(CLASSICAL_TYPES))


def test_every_classical_kind_of_the_specification_has_a_row() -> None:
    kinds = {field.name for field in message_class("Model").DESCRIPTOR.oneofs_by_name["Type"].fields}
    assert set(CLASSICAL_TYPES) == kinds - _OTHER_KINDS - _UNSPECIFIED_KINDS - set(EXTERNAL_READERS)


def test_every_row_has_an_example() -> None:
    assert set(EXAMPLES) == set(CLASSICAL_TYPES)


@every_kind
def test_a_model_is_read_as_the_content_of_its_row(kind: str) -> None:
    row, model = CLASSICAL_TYPES[kind], read_spec(EXAMPLES[kind])
    assert (row.kind, model.kind) == (kind, kind)
    assert type(model.content) is row.content
    assert isinstance(model.content, Classical)
    assert row.content.__struct_config__.frozen
    assert not hasattr(model.content, "__dict__")


@every_kind
def test_a_model_is_lowered_and_gives_what_it_describes(kind: str, tmp_path: Path) -> None:
    model = read_spec(EXAMPLES[kind])
    chosen = choose_function(model)
    with closing(compile_model(model, tmp_path)) as executable:
        results = executable.predict(dummy_values(chosen.description, chosen.function))
    assert set(results) == {feature.name for feature in model.description.main.outputs}


@every_kind
def test_the_work_of_a_model_is_known(kind: str) -> None:
    summary = describe_model(read_spec(EXAMPLES[kind]), list_ops=True)
    assert [op.type for op in summary.ops] == [kind]
    assert summary.main.work is not None
    assert not summary.main.work.unknown_ops


@every_kind
def test_operations_have_the_weights_of_the_summary(kind: str) -> None:
    summary = describe_model(read_spec(EXAMPLES[kind]), list_ops=True)
    (op,) = summary.ops
    assert op.weight_bytes is not None
    assert op.read_bytes is not None
    assert op.weight_bytes <= op.read_bytes
    if kind.startswith("treeEnsemble"):  # A prediction reads a path of each tree.
        assert 0 < op.weight_bytes <= summary.weights_bytes
    else:
        assert op.weight_bytes == summary.weights_bytes


@every_kind
def test_the_parameters_are_described_in_words(kind: str) -> None:
    content = read_spec(EXAMPLES[kind]).content
    facts = list(CLASSICAL_TYPES[kind].describe(content))
    assert bool(facts) == bool(content.__struct_fields__)
    assert all(what and value and (what + value).isprintable() for what, value in facts)


@every_kind
def test_given_values_are_kept_where_others_are_absent(kind: str) -> None:
    spec = type(EXAMPLES[kind]).FromString(EXAMPLES[kind].SerializeToString())
    for feature in spec.description.input:
        feature.type.isOptional = True
    model = read_spec(spec)
    interface = model.description.main
    names = {feature.name for feature in interface.inputs}
    assert set(with_absent_values(model.content, interface, {})) <= names
    chosen = choose_function(model)
    values = dummy_values(chosen.description, chosen.function)
    completed = with_absent_values(model.content, interface, values)
    assert all(completed[name] is value for name, value in values.items())


def _families() -> list[str]:
    """The modules and packages that hold model types."""
    return [
        path.stem
        for path in sorted(_ROOM.iterdir())
        if (path / "__init__.py").is_file() or (path.suffix == ".py" and "TYPES:" in path.read_text("utf-8"))
        if path.name != "__init__.py"
    ]


@pytest.mark.parametrize("family", _families())
def test_a_family_imports_no_other_family(family: str) -> None:
    others = {f"coremlscope.ops.classical.{name}" for name in _families() if name != family}
    path = _ROOM / family
    for module in path.rglob("*.py") if path.is_dir() else [path.with_suffix(".py")]:
        for node in ast.walk(ast.parse(module.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom):
                names = {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
                imported = {".".join(str(name).split(".")[:3]) for name in names}
                assert not imported & others
