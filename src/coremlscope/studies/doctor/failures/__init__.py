"""Known failure texts of Core ML, each with its cause, a fix, its source and how the source knows."""

from __future__ import annotations

from coremlscope.studies.doctor.failures.crashes import CRASHES
from coremlscope.studies.doctor.failures.failure import Failure
from coremlscope.studies.doctor.failures.gpu import GPU
from coremlscope.studies.doctor.failures.loading import LOADING
from coremlscope.studies.doctor.failures.memory import MEMORY
from coremlscope.studies.doctor.failures.neural_engine import NEURAL_ENGINE
from coremlscope.studies.doctor.failures.running import RUNNING
from coremlscope.studies.doctor.failures.shapes import SHAPES

__all__ = ["FAILURES", "Failure"]

#: All rows. Several rows may match one line.
FAILURES: tuple[Failure, ...] = (*LOADING, *SHAPES, *NEURAL_ENGINE, *GPU, *MEMORY, *RUNNING, *CRASHES)
