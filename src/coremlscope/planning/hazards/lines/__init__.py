"""Known failure texts of Core ML, each with its cause, a fix, its source and how the source knows."""

from __future__ import annotations

from coremlscope.planning.hazards.lines.crashes import CRASHES
from coremlscope.planning.hazards.lines.failure import Failure
from coremlscope.planning.hazards.lines.gpu import GPU
from coremlscope.planning.hazards.lines.loading import LOADING
from coremlscope.planning.hazards.lines.memory import MEMORY
from coremlscope.planning.hazards.lines.neural_engine import NEURAL_ENGINE
from coremlscope.planning.hazards.lines.running import RUNNING
from coremlscope.planning.hazards.lines.shapes import SHAPES

__all__ = ["FAILURES", "Failure"]

#: All rows. Several rows may match one line.
FAILURES: tuple[Failure, ...] = (*LOADING, *SHAPES, *NEURAL_ENGINE, *GPU, *MEMORY, *RUNNING, *CRASHES)
