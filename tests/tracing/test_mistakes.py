"""Programs with one planted mistake each, and programs without."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import coremlscope
from coremlscope.dropin.tracing.mistakes import find_mistakes
from coremlscope.dropin.tracing.session import RecordedProgram
from coremlscope.results.events import KIND_CODES
from coremlscope.results.trace import Trace

PROGRAMS = Path(__file__).parent / "programs"
_MARK = re.compile(r"# mistake: (\S+)")


def run_recorded(program: Path, models: Path, monkeypatch: pytest.MonkeyPatch) -> Trace:
    """Runs a program and records it: in this process, or in a new one if it forks."""
    # A process with threads, such as this one, must not fork.
    if "fork" in program.read_text(encoding="utf-8"):
        started = RecordedProgram([str(program), str(models)])
        assert started.wait(60) == 0
        return started.trace
    monkeypatch.setattr(sys, "argv", [str(program), str(models)])
    coremlscope.install()
    with coremlscope.record(children=False) as recording:
        runpy.run_path(str(program), run_name="__main__")
    return recording.trace


@pytest.mark.parametrize("program", sorted(PROGRAMS.glob("*.py")), ids=lambda path: path.stem)
def test_a_planted_mistake_is_found_at_its_line_and_no_other(
    program: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coremlscope.results.trace.LEAST_COST_S", 0.0)
    # On a busy machine any conversion may take long.
    monkeypatch.setattr("coremlscope.dropin.tracing.mistakes._LONG_NS", 10**12)
    lines = program.read_text(encoding="utf-8").splitlines()
    planted = [(m[1], number) for number, line in enumerate(lines, 1) if (m := _MARK.search(line))]
    trace = run_recorded(program, models, monkeypatch)
    found = [
        (m.id, trace.sites[m.site].line if m.site >= 0 else 0)
        for m in trace.mistakes
        if m.severity == "warning"
    ]
    assert found == planted
    assert len(trace.events.of("predict")) >= 12


def test_no_saving_counts_twice(tmp_path: Path, models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import asyncio, sys, numpy as np, coremltools as ct\n"
        "async def call():\n"
        "    for _ in range(4):\n"
        "        model = ct.models.MLModel(f'{sys.argv[1]}/net.mlpackage')\n"
        "        model.predict({'x': np.zeros((1, 4, 16, 16))})\n"
        "asyncio.run(call())\n"
    )
    trace = run_recorded(program, models, monkeypatch)
    found = {one.id: one for one in trace.mistakes}
    blocking, loop = found["load-on-main-thread"], found["load-in-loop"]
    loads = trace.events.of("load").duration_ns.sum() / 1e9
    assert blocking.gain_s == pytest.approx(loads)
    assert loop.gain_s == 0
    assert 0 < loop.shared_s < loads
    assert trace.gain_s == pytest.approx(sum(one.gain_s or 0 for one in trace.mistakes))
    assert trace.gain_s <= trace.duration_s


@pytest.mark.parametrize("layout", ["GRAYSCALE", "GRAYSCALE_FLOAT16", "RGB"])
def test_8_bit_images_into_a_half_precision_model_have_a_cost(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import coremltools as ct
    from coremltools.converters.mil import Builder as mb

    channels = 3 if layout == "RGB" else 1
    shape = (1, channels, 512, 512)

    @mb.program(input_specs=[mb.TensorSpec(shape)], opset_version=ct.target.iOS16)
    def program(image: Any) -> Any:
        return mb.reduce_mean(x=mb.relu(x=image), axes=[1, 2, 3], keep_dims=False, name="y")

    image = ct.ImageType("image", shape=shape, color_layout=getattr(ct.colorlayout, layout))
    options: dict[str, Any] = {"minimum_deployment_target": ct.target.iOS16, "skip_model_load": True}
    ct.convert(program, inputs=[image], **options).save(str(tmp_path / "image.mlpackage"))
    script = tmp_path / "program.py"
    mode = {"RGB": "RGB", "GRAYSCALE": "L", "GRAYSCALE_FLOAT16": "F"}[layout]
    script.write_text(
        "import sys, coremltools as ct\nfrom PIL import Image\n"
        "model = ct.models.MLModel(f'{sys.argv[1]}/image.mlpackage')\n"
        f"picture = Image.new({mode!r}, (512, 512))\n"
        "for _ in range(4):\n    model.predict({'image': picture})\n"
    )
    # Where a load takes long, a hundredth of the recording is more than four conversions.
    monkeypatch.setattr("coremlscope.results.trace.LEAST_COST_S", 0.0)
    trace = run_recorded(script, tmp_path, monkeypatch)
    events = trace.events
    is_input = events.kind == KIND_CODES["convert input"]
    # A tenth of predicting, whatever the machine does.
    usual = int(events.of("predict").duration_ns.mean()) // 10
    events = replace(events, duration_ns=np.where(is_input, usual, events.duration_ns))
    trace = find_mistakes(replace(trace, events=events))
    found = [one for one in trace.mistakes if one.id == "image-8-bit"]
    if layout == "GRAYSCALE_FLOAT16":
        assert found == []
        return
    (mistake,) = found
    assert mistake.events == 4
    # Lengthened conversions of one prediction overlap each other, and what delays the first one.
    assert 0 < (mistake.gain_s or 0) + mistake.shared_s <= 4 * 2 * usual / 1e9
    assert ("GRAYSCALE_FLOAT16" in mistake.fix) == (layout == "GRAYSCALE")
