from __future__ import annotations

from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb
from coremltools.converters.mil.mil import get_new_symbol
from msgspec.structs import replace

import coremlscope
from coremlscope.formats import container
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.model import ir
from coremlscope.model.ir import Model
from coremlscope.planning.advice import RULES, bind_default_function, find_remarks
from coremlscope.planning.rewrites.moves import with_joined_reshapes
from coremlscope.planning.rewrites.transforms import default_transforms, parse_transform, why_not
from coremlscope.studies.variants.coremltools_steps import transform_file
from tests.support.advised_models import MODELS, few_values

_MODELS: dict[str, list[Model]] = {
    rule.id: MODELS[rule.id][0]
    for rule in RULES
    if rule.transform not in ("", "image-inputs") and not rule.is_of_networks and rule.id in MODELS
} | {"few-values": [few_values(16)]}
_TRANSFORMS = {rule.id: parse_transform(rule.transform) for rule in RULES if rule.transform}
#: A GELU by its definition, and half precision, round differently.
_TOLERANCE = {
    "composed-activation": 1e-2,
    "float32-interface": 1e-2,
    "fp32-islands": 2e-2,
    "fp32-program": 2e-2,
}


def _found(model: Model) -> set[str]:
    return {remark.rule.id for remark in find_remarks(bind_default_function(model))}


@pytest.mark.parametrize(("rule", "place"), [(r, k) for r in _MODELS for k in range(len(_MODELS[r]))])
def test_a_transform_mends_what_the_finding_is_about(rule: str, place: int, tmp_path: Path) -> None:
    path, target = tmp_path / "m.mlpackage", tmp_path / "v.mlpackage"
    write_mlpackage(_MODELS[rule][place], path)
    model = container.read(path)
    main = model.description.main
    assert rule in _found(model)
    assert _TRANSFORMS[rule].name in {one.name for one in default_transforms(model, has_data=False)}
    fixed = {f.name: (f.type.shape,) for f in main.inputs if getattr(f.type, "flexibility", None)}  # type: ignore[union-attr]
    transform_file(path, _TRANSFORMS[rule], target, shapes=fixed, samples=[], folder=tmp_path)
    assert rule not in _found(container.read(target))
    generator = np.random.default_rng(0)
    values = {f.name: generator.standard_normal(f.type.shape).astype(np.float32) for f in main.inputs}  # type: ignore[union-attr]
    before, after = (coremlscope.predict(one, values) for one in (path, target))
    assert after
    for name, expected in before.items():
        if name in after:
            most = _TOLERANCE.get(rule, 0.0) * float(np.abs(expected).max())
            np.testing.assert_allclose(after[name], expected, rtol=0, atol=most)


@pytest.mark.parametrize("name", ["tidy", "palettize-unique", "without-needless-outputs"])
def test_a_transform_that_no_finding_asks_for_does_not_suit(name: str) -> None:
    model = MODELS["unused-operations"][1][0]
    assert why_not(parse_transform(name), model) == "no finding on the model asks for it"


@pytest.mark.parametrize("rule", ["redundant-transposes", "fp32-program"])
def test_findings_on_models_that_cannot_be_changed_name_no_transform(rule: str) -> None:
    model = MODELS[rule][0][0]
    assert isinstance(model.content, ir.Program)
    named = {remark.rule.id: remark.transform for remark in find_remarks(bind_default_function(model))}
    assert named[rule] == _TRANSFORMS[rule].name
    two = {**model.content.functions, "other": model.content.functions["main"]}
    for other in (
        replace(model, container="mlmodelc"),
        replace(model, content=replace(model.content, functions=two)),
    ):
        remarks = find_remarks(bind_default_function(other))
        assert rule in {remark.rule.id for remark in remarks}
        assert not any(remark.transform for remark in remarks)


def test_reshapes_of_flexible_shapes_are_not_joined(tmp_path: Path) -> None:
    @mb.program(input_specs=[mb.TensorSpec((get_new_symbol(), 8))], opset_version=ct.target.iOS16)
    def program(x: Any) -> Any:
        return mb.relu(x=mb.squeeze(x=mb.expand_dims(x=mb.softmax(x=x), axes=[0]), axes=[0]), name="y")

    path = tmp_path / "m.mlpackage"
    shape = ct.Shape((ct.RangeDim(1, 8, default=2), 8))
    target = ct.target.iOS16
    ct.convert(
        program,
        inputs=[ct.TensorType("x", shape)],
        minimum_deployment_target=target,
        skip_model_load=True,
    ).save(str(path))
    model = container.read(path)
    remarks = {one.rule.id: one.transform for one in find_remarks(bind_default_function(model))}
    assert remarks["redundant-reshapes"] == ""
    assert why_not(parse_transform("tidy"), model) == "no finding on the model asks for it"
    joined, count = with_joined_reshapes(model)
    assert count == 0
    assert joined.content == model.content
