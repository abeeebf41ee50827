"""Plans of large real models compared with what was published about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from coremlscope import api

#: FluidInference/FluidAudio, profile of the Neural Engine: on an M5 with macOS 26 and CPU_AND_NE, 1,139 of
#: the 1,174 operations of this encoder ran on it.
_PUBLISHED, _ALL = 1139, 1174


@pytest.mark.parametrize("folder", ["streaming_encoder", "streaming_encoder-2"])
def test_a_streaming_encoder_stays_on_the_neural_engine(folder: str, pytestconfig: pytest.Config) -> None:
    models: Path = pytestconfig.rootpath.parent / "shared" / "corpus" / "models"
    path = models / "FluidInference__FluidAudio" / f"{folder}.mlmodelc"
    if not path.is_dir():
        pytest.skip(f"no model at {path}")
    profile = api.plan(path, "m5", os="26", compute_units="cpu_and_ne")
    view = profile.plans[0].view(profile.ops)
    listed = [op for op in view.ops if op.id not in ("main/input", "main/output")]
    assert len(listed) == _ALL
    assert sum(op.unit == "neural_engine" for op in listed) == pytest.approx(_PUBLISHED, abs=0.01 * _ALL)
    # A rule that is known by anecdote would take dozens of them; it is shown, not applied.
    (doubt,) = (one for one in view.setting.what_ifs if one.hypothesis == "doubt")
    assert doubt.rule == "ne-mask-from-elsewhere"
    assert doubt.moved["cpu"] >= len(doubt.ops) > 50
    assert doubt.saved_ms < 0
