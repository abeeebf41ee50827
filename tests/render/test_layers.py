"""Times of neural networks are shown by layer."""

from __future__ import annotations

import dataclasses

from coremlscope.render.layers import by_layer
from coremlscope.render.terminal.timing import group_name, kinds
from coremltools.models import datatypes
from coremltools.models.neural_network import NeuralNetworkBuilder

import coremlscope
from coremlscope.formats import container
from coremlscope.render.csv import render_csv
from coremlscope.render.markdown.report import render_markdown
from coremlscope.results.profile import Group, Profile


def _profile() -> Profile:
    """Layers `dense` (three operations), `act` and `soft`."""
    builder = NeuralNetworkBuilder(
        [("x", datatypes.Array(1, 8, 8))], [("y", None)], disable_rank5_shape_mapping=True
    )
    builder.add_activation("act", "ELU", "x", "a", 1.0)
    builder.add_activation("soft", "SOFTSIGN", "a", "b")
    builder.add_activation("sig", "SIGMOID", "b", "y")
    model = container.read(builder.spec.SerializeToString())
    return coremlscope.profile(model, iterations=2, compile_iterations=1, load_iterations=1, warmups=1)


def _with_groups(profile: Profile, *groups: tuple[str, ...]) -> Profile:
    made = tuple(
        Group(" + ".join(ids), ids, 0.5 + index, 1 / len(groups), (("node", "Node"),))
        for index, ids in enumerate(groups)
    )
    return dataclasses.replace(profile, groups=made)


def test_groups_of_one_layer_are_joined_and_none_is_split() -> None:
    profile = _profile()
    ids = {row.name: row.id for row in profile.ops}
    assert set(ids) == {"act", "soft", "sig"}
    ops = profile.ops
    twice = dataclasses.replace(
        ops, layer=("act", "act", "sig"), layer_type=("activation", "activation", "activation")
    )
    profile = dataclasses.replace(profile, ops=twice)
    apart = _with_groups(profile, (ids["act"],), (ids["soft"],), (ids["sig"],), ())
    first, second, added = by_layer(apart)
    assert (first.label, first.wall_s, first.op_ids) == ("activation", 2.0, (ids["act"], ids["soft"]))
    assert (second.label, second.wall_s, second.op_ids) == ("activation", 2.5, (ids["sig"],))
    assert added == apart.groups[3]

    shared = _with_groups(profile, (ids["act"],), (ids["soft"], ids["sig"]))
    (whole,) = by_layer(shared)
    assert (whole.label, whole.wall_s) == ("activation ×2", 2.0)
    assert group_name(whole, {row.id: row for row in profile.ops}).startswith("act +")
    assert [kind.label for kind in kinds(shared)] == ["activation ×2"]


def test_reports_name_layers() -> None:
    profile = _profile()
    assert {row.layer for row in profile.ops} == {"act", "soft", "sig"}
    assert {row.layer_type for row in profile.ops} == {"activation"}
    assert profile.model.main.layers == {"activation": 3}
    assert profile.model.main.opset == ""
    header, *rows = render_csv(profile).splitlines()
    column = header.split(",").index("layer_type")
    assert {row.split(",")[column] for row in rows if row.startswith("main")} == {"activation"}
    assert "softsign" not in render_markdown(profile)
