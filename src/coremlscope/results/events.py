"""The kinds of events of a recorded program, and their flags.

A recorder imports them in every process that it records, so this module imports nothing that takes time.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

Lane = Literal["activity", "data", "compute"]
LANES: Final[tuple[Lane, ...]] = ("activity", "data", "compute")

#: Flags of events. FAILED: the call raised. NOT_CONTIGUOUS: an input is not contiguous in memory.
#: IN_EVENT_LOOP: the thread runs an asyncio loop. COPIED: a conversion made a copy.
#: SHARES_BASE: the first input is a part of a larger array. NESTED: another recorded call encloses it.
FAILED, NOT_CONTIGUOUS, IN_EVENT_LOOP, ON_MAIN_THREAD, COPIED, SHARES_BASE, NESTED = (
    1 << bit for bit in range(7)
)


class EventKind(msgspec.Struct, frozen=True):
    """A kind of event.

    Attributes:
        name: Its name: `predict`.
        lane: The lane that shows it.
        doc: One sentence that explains it.
    """

    name: str
    lane: Lane
    doc: str


#: The kinds of events. The code of an event is its position; new kinds are added at the end.
EVENT_KINDS: Final[tuple[EventKind, ...]] = (
    EventKind("compile", "activity", "A model was compiled to a `.mlmodelc` folder."),
    EventKind("load", "activity", "A model was loaded; Core ML also compiles packages and networks then."),
    EventKind("predict", "activity", "One call that predicts, for one input or a batch."),
    EventKind("new state", "activity", "A state for a stateful model was created."),
    EventKind("unload", "activity", "A loaded model was released."),
    EventKind("check inputs", "data", "Names and kinds of the inputs were checked."),
    EventKind("convert input", "data", "A value became the array that the model reads."),
    EventKind("convert output", "data", "A result became the value that the program gets."),
    EventKind("resize image", "data", "The program resized an image."),
    EventKind("convert image", "data", "The program converted an image to another mode."),
    EventKind(
        "prepare engine",
        "compute",
        "The engine built the session that runs a model for one set of shapes, or prepared a request.",
    ),
    EventKind("run", "compute", "The engine ran the model."),
    EventKind("operation", "compute", "The engine ran one operation."),
    EventKind("CPU request", "compute", "Core ML had the CPU run a part of a model, by its own table."),
    EventKind("GPU busy", "compute", "The GPU was busy, by Instruments' table of its intervals."),
    EventKind("Neural Engine busy", "compute", "The Neural Engine was busy, by its table of Instruments."),
    EventKind("GPU request", "compute", "Core ML had the GPU run a part of a model, by its own table."),
    EventKind(
        "Neural Engine request",
        "compute",
        "Core ML had the Neural Engine run a part of a model, by its own table.",
    ),
)

#: The code of each kind by name.
KIND_CODES: Final = {kind.name: code for code, kind in enumerate(EVENT_KINDS)}
