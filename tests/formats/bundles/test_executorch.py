"""ExecuTorch programs, written by ExecuTorch itself, damaged ones, and one built by the published schema."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest

import coremlscope
from coremlscope.base.errors import CoremlscopeError, CorruptModelError, NotAModelError
from coremlscope.formats import container
from coremlscope.formats.bundles import open_bundle
from coremlscope.formats.bundles.executorch import read_executorch
from coremlscope.formats.mlmodel import write_spec
from coremlscope.formats.values import write_immediate
from tests.support.constant_programs import linear_model

_DATA = Path(__file__).parents[2] / "data" / "executorch"


def test_each_delegate_is_a_model() -> None:
    path = _DATA / "two_delegates.pte"
    bundle = open_bundle(path)
    assert bundle is not None
    assert [model.name for model in bundle.models] == [
        "forward-1/model.mlpackage",
        "forward-2/model.mlpackage",
    ]
    first, second = (container.read(f"{path}#forward-{number}") for number in (1, 2))
    assert first.source == Path(f"{path}#forward-1/model.mlpackage")
    assert [feature.name for feature in first.description.main.inputs] == ["x"]
    assert coremlscope.inspect(first).main.ops["conv"] == 1
    assert coremlscope.inspect(second).main.ops["linear"] == 1


def test_the_delegates_run_with_their_weights() -> None:
    x = np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype(np.float32)
    path = _DATA / "two_delegates.pte"
    (convolved,) = coremlscope.predict(f"{path}#forward-1", {"x": x}).values()
    assert convolved.shape == (1, 8, 6, 6)
    assert convolved.min() == 0, "a rectifier follows the convolution"
    assert np.isfinite(convolved).all()
    assert convolved.std() > 0.1


def test_methods_that_share_a_package_are_its_functions() -> None:
    model = container.read(_DATA / "shared_functions.pte")
    assert set(model.description.functions) == {"prefill", "decode"}
    listing = coremlscope.list_models(_DATA / "shared_functions.pte")
    assert listing is not None
    assert [sorted(row.functions) for row in listing.models] == [["decode", "prefill"]]


def test_a_program_without_core_ml() -> None:
    with pytest.raises(NotAModelError, match=r"runs on Core ML \(its delegates: none\)"):
        container.read(_DATA / "no_delegate.pte")


def _flattened(files: dict[str, bytes], edit: Any = None) -> bytes:
    """A folder as the Core ML delegate stores it: contents, then the reversed tree of names."""
    content, nodes = b"", []
    for name, data in files.items():
        region = {"offset": len(content), "size": len(data)}
        nodes.append({"name": name, "kind": 0, "dataRegion": region, "children": {}})
        content += data
    root = {"name": "root", "kind": 1, "dataRegion": {"offset": 0, "size": 0}}
    nodes.append({**root, "children": {name: index for index, name in enumerate(files)}})
    if edit:
        edit(nodes)
    return content + json.dumps({"nodes": nodes}).encode()[::-1]


def _program(delegates: dict[str, bytes], *, backend: str = "CoreMLBackend") -> bytes:
    """A program with inline data, of one method for each delegate, as in `program.fbs`."""
    builder = flatbuffers.Builder(0)

    def table(fields: int, **values: tuple[int, Any]) -> int:
        builder.StartObject(fields)
        for kind, (slot, value) in values.items():
            if kind.startswith("number"):
                builder.PrependUint32Slot(slot, value, 0)
            else:
                builder.PrependUOffsetTRelativeSlot(slot, value, 0)
        return int(builder.EndObject())

    def vector(tables: list[int]) -> int:
        builder.StartVector(4, len(tables), 4)
        for one in reversed(tables):
            builder.PrependUOffsetTRelative(one)
        return int(builder.EndVector())

    inline = vector([table(1, data=(0, builder.CreateByteVector(data))) for data in delegates.values()])
    plans = []
    for index, name in enumerate(delegates):
        reference = table(2, number=(1, index))
        delegate = table(3, id=(0, builder.CreateString(backend)), data=(1, reference))
        listed, title = vector([delegate]), builder.CreateString(name)
        plans.append(table(9, name=(0, title), delegates=(7, listed)))
    program = table(8, plans=(1, vector(plans)), inline=(3, inline))
    builder.Finish(program, b"ET12")
    return bytes(builder.Output())


_MODEL = write_spec(linear_model(), write_immediate)


def test_inline_data_of_a_program_built_by_the_schema(tmp_path: Path) -> None:
    path = tmp_path / "model.pte"
    path.write_bytes(_program({"a": _flattened({"m.mlmodel": _MODEL}), "b": b"x"}, backend="Other"))
    with pytest.raises(NotAModelError, match="its delegates: Other"):
        container.read(path)
    path.write_bytes(_program({"a": _flattened({"m.mlmodel": _MODEL, "notes.txt": b"x"})}))
    assert container.read(path) == linear_model()


@pytest.mark.parametrize(
    "edit",
    [
        lambda nodes: nodes[0]["dataRegion"].update(size=10**9),
        lambda nodes: nodes[0]["dataRegion"].update(offset=-1),
        lambda nodes: nodes[-1].update(children={"..": 0}),
        lambda nodes: nodes[-1].update(children={"a/b": 0}),
        lambda nodes: nodes[-1].update(children={"/etc/passwd": 0}),
        lambda nodes: nodes[-1].update(children={"m": 0, "n": 0}),
        lambda nodes: nodes[-1].update(children={"m": len(nodes) - 1}),
        lambda nodes: nodes[-1].update(children=[0]),
        lambda nodes: nodes[0].pop("kind"),
        lambda nodes: nodes.clear(),
    ],
)
def test_a_damaged_tree_of_names(edit: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.pte"
    path.write_bytes(_program({"a": _flattened({"m.mlmodel": _MODEL}, edit)}))
    with pytest.raises(CorruptModelError, match=r"a Core ML delegate in .* is damaged"):
        container.read(path)


def test_a_method_cannot_name_a_folder_outside(tmp_path: Path) -> None:
    path = tmp_path / "model.pte"
    path.write_bytes(_program({"../a": _flattened({"m.mlmodel": _MODEL})}))
    with pytest.raises(CorruptModelError, match=r"a method with the name '\.\./a'"):
        container.read(path)


@pytest.mark.parametrize("name", ["two_delegates.pte", "shared_functions.pte"])
def test_mutated_programs_are_errors_or_read(name: str, tmp_path: Path) -> None:
    whole, generator = (_DATA / name).read_bytes(), random.Random(0)
    path = tmp_path / name
    hints = []
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(generator.randint(1, 8)):
            # Most of the structure is in the first kilobyte and in the last.
            start = generator.choice([0, len(data) - 1100])
            place = generator.randrange(start, start + 1024)
            data[place : place + 4] = struct.pack("<I", generator.choice([0, 1, 2**31, 2**32 - 1, 77]))
        data[4:8] = b"ET12"
        path.write_bytes(data[: generator.choice([len(data), generator.randrange(100, len(data))])])
        try:
            read_executorch(path)
        except CoremlscopeError as error:
            hints.append(error.hint)
    assert len(hints) > 100
    assert all(hints)
