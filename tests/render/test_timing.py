"""Where the time goes: times of neural networks are shown by layer."""

from __future__ import annotations

import msgspec.structs
from coremltools.models import datatypes
from coremltools.models.neural_network import NeuralNetworkBuilder

import coremlscope
from coremlscope.formats import container
from coremlscope.reports.csv import render_csv
from coremlscope.reports.markdown.writer import write_markdown
from coremlscope.reports.renderers import document_of, notebook_card
from coremlscope.reports.terminal.writer import write_terminal
from coremlscope.reports.timing import (
    by_layer,
    group_name,
    kinds,
    measurement_name,
    phase_rows,
    python_note,
)
from coremlscope.results.measurement import Conditions, Group, Machine, Phase, Runtime
from coremlscope.results.profile import Profile
from tests.support.profiles import small_measurement, small_profile, timed_by


def _profile() -> Profile:
    """Layers `dense` (three operations), `act` and `soft`."""
    builder = NeuralNetworkBuilder(
        [("x", datatypes.Array(1, 8, 8))], [("y", None)], disable_rank5_shape_mapping=True
    )
    builder.add_activation("act", "ELU", "x", "a", 1.0)
    builder.add_activation("soft", "SOFTSIGN", "a", "b")
    builder.add_activation("sig", "SIGMOID", "b", "y")
    model = container.read(builder.spec.SerializeToString())
    return coremlscope.profile(
        model, iterations=2, effort=coremlscope.Effort(compile_iterations=1, load_iterations=1, warmups=1)
    )


def _with_groups(profile: Profile, *groups: tuple[int, ...]) -> Profile:
    made = tuple(
        Group(
            label=str(rows),
            ops=rows,
            wall_s=0.5 + index,
            share=1 / len(groups),
            engine_nodes=(("node", "Node"),),
        )
        for index, rows in enumerate(groups)
    )
    measured = msgspec.structs.replace(profile.measurement, groups=made, group=())
    return msgspec.structs.replace(profile, measurements=(measured,))


def test_groups_of_one_layer_are_joined_and_none_is_split() -> None:
    profile = _profile()
    assert profile.ops.name == ("act", "soft", "sig")
    ops = msgspec.structs.replace(
        profile.ops, layer=("act", "act", "sig"), layer_type=("activation", "activation", "activation")
    )
    profile = msgspec.structs.replace(profile, ops=ops)
    apart = _with_groups(profile, (0,), (1,), (2,), ()).measurement
    first, second, added = by_layer(ops, apart)
    assert (first.label, first.wall_s, first.ops) == ("activation", 2.0, (0, 1))
    assert (second.label, second.wall_s, second.ops) == ("activation", 2.5, (2,))
    assert added == apart.groups[3]

    shared = _with_groups(profile, (0,), (1, 2)).measurement
    (whole,) = by_layer(ops, shared)
    assert (whole.label, whole.wall_s) == ("activation ×2", 2.0)
    assert group_name(whole, ops).startswith("act +")
    assert [kind.label for kind in kinds(ops, shared)] == ["activation ×2"]


def test_reports_name_layers() -> None:
    profile = _profile()
    assert {row.layer for row in profile.ops} == {"act", "soft", "sig"}
    assert {row.layer_type for row in profile.ops} == {"activation"}
    assert profile.model.main.layers == {"activation": 3}
    assert profile.model.main.opset == ""
    header, *rows = render_csv(profile).splitlines()
    column = header.split(",").index("layer_type")
    assert {row.split(",")[column] for row in rows if row.startswith("main")} == {"activation"}
    assert "softsign" not in write_markdown(document_of(profile))


def test_times_through_python_and_conditions_stand_beside_the_runtimes_own() -> None:
    hot = Conditions("normal", "AC Power", "moderate")
    measured = msgspec.structs.replace(
        timed_by("Core ML on Apple M2", 0.004),
        runtime=Runtime("coreml", "Core ML", through="coremltools 9.0"),
        first_load=Phase.of((60.0,)),
        predict=Phase.of((0.003,) * 4, (), (0.004,) * 4, "fp16 as float32"),
        before=Conditions("normal", "AC Power", "nominal"),
        after=hot,
    )
    assert [name for name, *_ in phase_rows(measured)] == [
        "first load",
        "load",
        "predict, fp16 as float32",
        "predict, through Python",
    ]
    assert "by coremltools 9.0" in python_note(measured)
    assert python_note(timed_by("Core ML on Apple M2", 0.004)) == ""
    profile = msgspec.structs.replace(small_profile(), measurements=(measured,))
    for text in (
        write_markdown(document_of(profile)),
        write_terminal(document_of(profile), width=140),
        notebook_card(profile),
    ):
        assert "predict, through Python" in text
        assert "first load" in text
        assert "3.00 ms" in text
    for text in (write_markdown(document_of(profile)), write_terminal(document_of(profile), width=140)):
        assert "thermal state: nominal, then moderate; power mode: normal; AC Power" in text


def test_measurements_with_equal_labels_are_distinguished() -> None:
    first = small_measurement()
    assert measurement_name(first) == measurement_name(first, [first]) == first.label
    other = msgspec.structs.replace(first, threads=4)
    assert measurement_name(other, [first, other]) == f"{first.label}, 4 threads"
    timed = timed_by("Core ML on Apple M2", 0.001, compute_units="cpu_only")
    assert measurement_name(timed) == "Core ML on Apple M2, cpu_only"
    slow = msgspec.structs.replace(timed, machine=Machine(processor="Apple M2", power_mode="low power"))
    assert measurement_name(slow, [slow, timed]).endswith(", power mode: low power")
    assert measurement_name(timed, [slow, timed]).endswith(", power mode: unknown")
