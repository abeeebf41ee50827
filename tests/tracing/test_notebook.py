"""Recordings in notebooks."""

from __future__ import annotations

import asyncio
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import coremlscope
from coremlscope.results.events import IN_EVENT_LOOP


@pytest.mark.parametrize("is_kernel", [False, True])
def test_the_loop_of_a_kernel_is_not_the_programs(
    is_kernel: bool, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coremlscope.results.trace.LEAST_COST_S", 0.0)
    if is_kernel:
        shell = types.SimpleNamespace(
            compile=types.SimpleNamespace(
                format_code_name=lambda name: ("Cell", "In[3]") if name == __file__ else None
            )
        )
        monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
        monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))

    async def run_cell() -> None:
        with coremlscope.open(models / "net.mlpackage") as model:
            model.predict({"x": np.ones((1, 4, 16, 16), np.float32)})

    with coremlscope.record(operations=True) as recording:
        asyncio.run(run_cell())
    trace = recording.trace
    found = [mistake.id for mistake in trace.mistakes]
    assert ("load-on-main-thread" in found) is not is_kernel
    assert bool(trace.events.of("predict").flags[0] & IN_EVENT_LOOP) is not is_kernel
    assert {site.file for site in trace.sites} == {"In[3]" if is_kernel else __file__}
    text = recording._repr_html_()
    assert "<pre" in text
    assert "Activity" in text
    assert "Operations" in text
    assert (" notebook: " in text) is is_kernel


@pytest.mark.long
def test_cells_of_a_real_notebook_show_their_trace(models: Path) -> None:
    pytest.importorskip("ipykernel")
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    path = str(models / "net.mlpackage")
    cells = [
        "import coremlscope, numpy as np\nrecording = coremlscope.record().start()",
        f"model = coremlscope.open({path!r})",
        "x = {'x': np.ones((1, 4, 16, 16), np.float32)}\nfor _ in range(12):\n    model.predict(x)",
        f"for _ in range(3):\n    coremlscope.open({path!r}).predict(x)",
        "recording.stop()\nrecording",
        "[(m.id, recording.trace.sites[m.site].file, recording.trace.sites[m.site].line)"
        " for m in recording.trace.mistakes if m.severity == 'warning']",
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(book, timeout=60).execute()
    shown = book.cells[4].outputs[0].data["text/html"]
    assert "predict" in shown
    assert "In[4]:2" in shown
    assert "('load-in-loop', 'In[4]', 2)" in book.cells[5].outputs[0].data["text/plain"]
    assert "load-on-main-thread" not in book.cells[5].outputs[0].data["text/plain"]
