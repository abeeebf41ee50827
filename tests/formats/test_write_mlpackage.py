"""Written packages read back equal, are complete or not written at all, and load in coremltools."""

from __future__ import annotations

import json
import math
from pathlib import Path

import msgspec.structs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coremlscope.base.errors import MissingWeightsError, OutputError
from coremlscope.formats import container, packaging
from coremlscope.formats.mlmodel import write_spec
from coremlscope.formats.packing import unpack
from coremlscope.formats.values import write_immediate
from coremlscope.formats.weights import BlobData
from coremlscope.model import ir
from tests.support.constant_programs import constants_of, linear_model, model_of

_WEIGHTS = "Data/com.apple.CoreML/weights"


def _round_trip(model: ir.Model, folder: Path) -> ir.Model:
    path = folder / "model.mlpackage"
    packaging.write_mlpackage(model, path, overwrite=True)
    return container.read(path)


@st.composite
def _tensors(draw: st.DrawFn) -> ir.Constant:
    dtype = draw(st.sampled_from([dtype for dtype in ir.DType if dtype is not ir.DType.STRING]))
    type_ = ir.TensorType(dtype, tuple(draw(st.lists(st.integers(0, 4), max_size=3))))
    assert type_.nbytes is not None
    if dtype is ir.DType.BOOL:
        flags = draw(st.lists(st.booleans(), min_size=type_.nbytes, max_size=type_.nbytes))
        bools: ir.Array = np.array(flags, np.bool_)
        return ir.Constant(type_, ir.Immediate(bools.reshape(type_.shape)))  # type: ignore[arg-type]
    packed = draw(st.binary(min_size=type_.nbytes, max_size=type_.nbytes))
    array = unpack(packed, type_)
    if dtype.is_float:
        # The conversion to double and back may change the bit pattern of NaN.
        array = np.where(np.isnan(array), array.dtype.type(0), array)
    return ir.Constant(type_, ir.Immediate(array))


def _strings() -> st.SearchStrategy[ir.Constant]:
    text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    return st.one_of(text.map(ir.constant), st.lists(text, min_size=1, max_size=3).map(ir.constant))


def _nested(members: st.SearchStrategy[ir.Constant]) -> st.SearchStrategy[ir.Constant]:
    def make_tuple(items: list[ir.Constant]) -> ir.Constant:
        return ir.Constant(ir.TupleType(tuple(item.type for item in items)), ir.Nested(tuple(items)))

    def make_list(items: tuple[ir.Constant, int]) -> ir.Constant:
        return ir.Constant(ir.ListType(items[0].type, items[1]), ir.Nested((items[0],) * items[1]))

    def make_dict(value: ir.Constant) -> ir.Constant:
        key = ir.constant("key")
        return ir.Constant(ir.DictType(key.type, value.type), ir.Nested((key, value)))

    return st.one_of(
        st.lists(members, max_size=3).map(make_tuple),
        st.tuples(members, st.integers(0, 3)).map(make_list),
        members.map(make_dict),
    )


@settings(max_examples=150)
@given(constant=st.one_of(_tensors(), _strings(), _nested(_tensors())), spec_version=st.sampled_from([6, 9]))
def test_constants_read_back_equal(
    tmp_path_factory: pytest.TempPathFactory, constant: ir.Constant, spec_version: int
) -> None:
    model = model_of({"c": constant}, spec_version)
    assert _round_trip(model, tmp_path_factory.getbasetemp()) == model
    assert container.read(write_spec(model, write_immediate)) == model


_ARRAYS = st.builds(
    ir.ArrayFeature,
    dtype=st.sampled_from([ir.DType.FP16, ir.DType.FP32, ir.DType.FP64, ir.DType.INT32, ir.DType.INT8]),
    shape=st.lists(st.integers(0, 9), max_size=4).map(tuple),
    flexibility=st.sampled_from(
        [
            None,
            ir.EnumeratedShapes(((1, 2), (3, 4))),
            ir.RangeShapes(((1, -1), (2, 5))),
            ir.EnumeratedShapes(()),
        ]
    ),
    default=st.sampled_from([None, 0.0, 1.0, -3.0, 0.1, 1e300, math.inf, float(2**31)]),
)
_FEATURES = st.builds(
    ir.Feature,
    st.sampled_from(["a", "b"]),
    st.one_of(
        _ARRAYS,
        _ARRAYS.map(ir.StateFeature),
        st.builds(
            ir.ImageFeature,
            st.sampled_from(["RGB", "BGR", "GRAYSCALE", "GRAYSCALE_FLOAT16"]),
            st.integers(0, 9),
            st.integers(0, 9),
            st.sampled_from([None, ir.EnumeratedShapes(((2, 1),)), ir.RangeShapes(((1, 4), (2, -1)))]),
        ),
        st.sampled_from([ir.Int64Feature(), ir.DoubleFeature(), ir.StringFeature()]),
        st.sampled_from(["int64", "string"]).map(ir.DictionaryFeature),
        st.builds(
            ir.SequenceFeature, st.sampled_from(["int64", "string"]), st.sampled_from([(0, -1), (2, 7)])
        ),
    ),
    st.booleans(),
    st.sampled_from(["", "a description"]),
)
_FUNCTIONS = st.builds(
    ir.FunctionDescription,
    inputs=st.lists(_FEATURES, max_size=2).map(tuple),
    outputs=st.lists(_FEATURES, max_size=2).map(tuple),
    states=st.lists(_FEATURES, max_size=2).map(tuple),
    predicted_feature=st.sampled_from(["", "label"]),
    predicted_probabilities=st.sampled_from(["", "probabilities"]),
)


@settings(max_examples=100)
@given(
    functions=st.lists(_FUNCTIONS, min_size=1, max_size=3),
    training=st.lists(_FEATURES, max_size=1).map(tuple),
)
def test_descriptions_read_back_equal(
    functions: list[ir.FunctionDescription], training: tuple[ir.Feature, ...]
) -> None:
    names = ["main", "other", "third"][: len(functions)]
    described = dict(zip(names, functions, strict=True))
    described[names[-1]] = msgspec.structs.replace(described[names[-1]], training_inputs=training)
    model = msgspec.structs.replace(
        model_of({}),
        description=ir.Description(described, names[-1]),
        metadata=ir.Metadata(
            description="what", version="1.2", author="who", licence="MIT", user_defined={"b": "1", "a": "2"}
        ),
        is_updatable=bool(training),
    )
    again = container.read(write_spec(model, write_immediate))
    assert again == model
    assert list(again.metadata.user_defined) == ["b", "a"]
    assert list(again.description.functions) == names


def test_functions_and_blocks_read_back_equal(tmp_path: Path) -> None:
    model = linear_model()
    again = _round_trip(model, tmp_path)
    assert again == model
    assert isinstance(again.content, ir.Program)
    cond = again.content.functions["main"].graph.ops[3]
    assert [(block.name, block.ops[0].id) for block in cond.blocks] == [
        ("true", "main/3/true/0"),
        ("false", "main/3/false/0"),
    ]
    assert again.weight_files == (ir.WeightFile("weights/weight.bin", 160),)


@pytest.mark.parametrize("spec_version", [6, 9])
def test_large_constants_are_in_the_weight_file(tmp_path: Path, spec_version: int) -> None:
    constants = {
        dtype.value: ir.Constant(ir.TensorType(dtype, (10,)), ir.Immediate(np.ones(10, dtype.numpy)))
        for dtype in ir.DType
        if dtype is not ir.DType.STRING
    }
    constants["small"] = ir.constant(np.ones(9, np.float32))
    model = _round_trip(model_of(constants, spec_version), tmp_path)
    stored = {c.data.type.dtype for c in constants_of(model) if isinstance(c.data, BlobData)}
    early = {ir.DType.FP16, ir.DType.FP32, ir.DType.INT8, ir.DType.UINT8}
    inline = {ir.DType.FP64, ir.DType.INT64, ir.DType.UINT64, ir.DType.BOOL, ir.DType.STRING}
    assert stored == (early if spec_version < 9 else set(ir.DType) - inline)
    assert model == model_of(constants, spec_version)


def test_equal_models_give_equal_packages(tmp_path: Path) -> None:
    for name in ("one", "two"):
        packaging.write_mlpackage(linear_model(), tmp_path / f"{name}.mlpackage")
    files = sorted(file for file in (tmp_path / "one.mlpackage").rglob("*") if file.is_file())
    assert [file.name for file in files] == ["model.mlmodel", "weight.bin", "Manifest.json"]
    for file in files:
        twin = tmp_path / "two.mlpackage" / file.relative_to(tmp_path / "one.mlpackage")
        assert twin.read_bytes() == file.read_bytes()


def test_model_replaces_its_source_package(tmp_path: Path) -> None:
    path = tmp_path / "model.mlpackage"
    packaging.write_mlpackage(linear_model(), path)
    packaging.write_mlpackage(container.read(path), path, overwrite=True)
    assert container.read(path) == linear_model()
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.mlpackage"]


def test_references_to_a_missing_file_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "model.mlpackage"
    packaging.write_mlpackage(linear_model(), path)
    weights = (path / _WEIGHTS / "weight.bin").rename(tmp_path / "weight.bin")
    model = container.read(path)
    assert model.weight_files == (ir.WeightFile("weights/weight.bin", None),)
    more = ir.constant(np.arange(20, dtype=np.float16))
    assert isinstance(model.content, ir.Program)
    main = model.content.functions["main"]
    first = main.graph.ops[0]
    grown = msgspec.structs.replace(first, attributes={**first.attributes, "extra": more})
    graph = msgspec.structs.replace(main.graph, ops=(grown, *main.graph.ops[1:]))
    model = msgspec.structs.replace(
        model, content=ir.Program(functions={"main": msgspec.structs.replace(main, graph=graph)})
    )

    again = _round_trip(model, tmp_path)
    assert again == model
    assert {file.name: file.size is None for file in again.weight_files} == {
        "weights/weight.bin": True,
        "weights/weight-1.bin": False,
    }
    weights.rename(path / _WEIGHTS / "weight.bin")
    weight = next(constants_of(container.read(path)))
    assert all(constant.is_available for constant in constants_of(container.read(path)))
    assert weight.is_available


class TestErrors:
    """Errors leave existing files unchanged and no partial files behind."""

    def test_existing_package(self, tmp_path: Path) -> None:
        packaging.write_mlpackage(linear_model(), tmp_path / "m.mlpackage")
        with pytest.raises(OutputError, match="already exists"):
            packaging.write_mlpackage(linear_model(), tmp_path / "m.mlpackage")

    def test_existing_folder_that_is_not_a_package(self, tmp_path: Path) -> None:
        folder = tmp_path / "m.mlpackage"
        folder.mkdir()
        (folder / "thesis.txt").write_text("two years of work")
        with pytest.raises(OutputError, match="is not a package"):
            packaging.write_mlpackage(linear_model(), folder, overwrite=True)
        assert (folder / "thesis.txt").exists()

    def test_link_to_a_package(self, tmp_path: Path) -> None:
        packaging.write_mlpackage(linear_model(), tmp_path / "m.mlpackage")
        (tmp_path / "link.mlpackage").symlink_to(tmp_path / "m.mlpackage")
        with pytest.raises(OutputError, match="is not a package"):
            packaging.write_mlpackage(linear_model(), tmp_path / "link.mlpackage", overwrite=True)

    def test_wrong_suffix(self, tmp_path: Path) -> None:
        with pytest.raises(OutputError, match="does not end in"):
            packaging.write_mlpackage(linear_model(), tmp_path / "m.onnx")

    def test_no_such_folder(self, tmp_path: Path) -> None:
        with pytest.raises(OutputError, match=r"the folder .* does not exist"):
            packaging.write_mlpackage(linear_model(), tmp_path / "nowhere" / "m.mlpackage")

    def test_read_only_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: object, **__: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "mkdir", fail)
        with pytest.raises(OutputError, match="cannot be written: Permission denied"):
            packaging.write_mlpackage(linear_model(), tmp_path / "m.mlpackage")

    def test_other_model_types(self, tmp_path: Path) -> None:
        model = msgspec.structs.replace(linear_model(), content=ir.Opaque("treeEnsembleRegressor"))
        with pytest.raises(OutputError, match="treeEnsembleRegressor cannot be written"):
            packaging.write_mlpackage(model, tmp_path / "m.mlpackage")

    def test_failure_while_writing(self, tmp_path: Path) -> None:
        packaging.write_mlpackage(linear_model(), tmp_path / "m.mlpackage")
        weights = tmp_path / "m.mlpackage" / _WEIGHTS / "weight.bin"
        weights.write_bytes(weights.read_bytes()[:-1])
        with pytest.raises(MissingWeightsError):
            packaging.write_mlpackage(container.read(tmp_path / "m.mlpackage"), tmp_path / "n.mlpackage")
        assert [entry.name for entry in tmp_path.iterdir()] == ["m.mlpackage"]


def test_manifest_lists_model_and_weights(tmp_path: Path) -> None:
    packaging.write_mlpackage(model_of({}), tmp_path / "m.mlpackage")
    manifest = json.loads((tmp_path / "m.mlpackage/Manifest.json").read_text())
    paths = {item["path"] for item in manifest["itemInfoEntries"].values()}
    assert paths == {"com.apple.CoreML/model.mlmodel", "com.apple.CoreML/weights"}
    assert all((tmp_path / "m.mlpackage/Data" / path).exists() for path in paths)


@pytest.mark.filterwarnings("ignore:Implicitly cleaning up:ResourceWarning")  # coremltools' temporary folders
def test_programs_of_coremltools_read_back_equal(tmp_path: Path) -> None:
    import coremltools as ct
    from coremltools.converters.mil import Builder as mb
    from coremltools.converters.mil.frontend.milproto.load import load

    @mb.program(input_specs=[mb.TensorSpec(shape=(2, 12))], opset_version=ct.target.iOS18)
    def program(x):  # type: ignore[no-untyped-def]
        weight = np.arange(144, dtype=np.float32).reshape(12, 12)
        start = mb.linear(x=x, weight=weight)
        total = mb.while_loop(
            _cond=lambda i, a: mb.less(x=i, y=3),
            _body=lambda i, a: (mb.add(x=i, y=1), mb.mul(x=a, y=0.5)),
            loop_vars=(np.int32(0), start),
        )[1]
        return mb.cond(
            pred=mb.less(x=mb.reduce_max(x=total), y=np.float32(2)),
            _true_fn=lambda: mb.relu(x=total),
            _false_fn=lambda: mb.tanh(x=total),
        )

    theirs = ct.convert(program, minimum_deployment_target=ct.target.iOS18, skip_model_load=True)
    theirs.save(str(tmp_path / "theirs.mlpackage"))
    model = container.read(tmp_path / "theirs.mlpackage")
    assert isinstance(model.content, ir.Program)
    ops = {op.id: op for op in model.content.functions["main"].graph.walk()}
    blocks = {op.type: [block.name for block in op.blocks] for op in ops.values() if op.blocks}
    assert blocks == {"while_loop": ["cond", "body"], "cond": ["true", "false"]}
    loop = next(op for op in ops.values() if op.type == "while_loop")
    assert ops[f"{loop.id}/body/0"] is loop.blocks[1].ops[0]

    packaging.write_mlpackage(model, tmp_path / "ours.mlpackage")
    assert container.read(tmp_path / "ours.mlpackage") == model
    ours = ct.models.MLModel(str(tmp_path / "ours.mlpackage"), skip_model_load=True)
    spec = ours.get_spec()
    loaded = load(spec, spec.specificationVersion, file_weights_dir=ours.weights_dir)
    assert [op.op_type for op in loaded.functions["main"].operations if op.op_type != "const"] == [
        op.type for op in model.content.functions["main"].graph.ops if op.type != "const"
    ]
