"""How thoroughly a model is measured: repetitions, threads, and limits."""

from __future__ import annotations

import msgspec


class Effort(msgspec.Struct, frozen=True, kw_only=True):
    """Repetitions, threads and limits of a measurement.

    Attributes:
        compile_iterations: Timed compilations, exactly; None for as many as fit into 2 s, 6 at most.
        load_iterations: Timed loads, likewise.
        warmups: Predictions before the timed ones; None for as many as it takes.
        threads: Threads that work on one operation; None for one per physical core.
        isolate: Measures with an embedded engine in a process of its own, as `coremlscope profile` does:
            what was measured before the engine crashes, reaches a limit or Ctrl-C is kept, in a measurement
            that is `partial`. The model must be in a file, which is read again there. Core ML always has
            a process of its own.
        timeout_s: Seconds that each measurement may take; implies `isolate`.
        memory_bytes: Resident memory that the process of a measurement may take; implies `isolate`.
    """

    compile_iterations: int | None = None
    load_iterations: int | None = None
    warmups: int | None = None
    threads: int | None = None
    isolate: bool = False
    timeout_s: float | None = None
    memory_bytes: int | None = None
