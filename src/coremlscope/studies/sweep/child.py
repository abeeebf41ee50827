"""The child process that works on jobs, one after the other.

Each line of its standard input names the file of a `SweepJob`; it ends with its standard input.
"""

from __future__ import annotations

import gc
import logging
import os
import warnings

from coremlscope.base.processes.channel import jobs, send
from coremlscope.planning.placement.alike import sharing_kinds
from coremlscope.results.encoding import plain
from coremlscope.studies.sweep.jobs import SweepJob
from coremlscope.studies.sweep.work import run_job

#: New objects after which the collector looks for circles; Python's own number costs a tenth of the time.
_ALLOCATIONS = 100_000


def main() -> int:
    """Takes jobs until the parent has no more."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    # Most of what a job makes is gone when it ends, without the help of the collector.
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS)
    job: SweepJob
    with sharing_kinds():
        for job in jobs():
            send(rows=[plain(row) for row in run_job(job)])
    return 0


if __name__ == "__main__":
    os._exit(main())
