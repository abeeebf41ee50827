"""Imports pasted call stacks: of reports of crashes, lldb and Xcode, and call graphs of `sample`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from coremlscope.base.errors import UsageError
from coremlscope.base.findings import Finding
from coremlscope.base.units import escape_controls
from coremlscope.devices.unit import CPU, GPU, NEURAL_ENGINE
from coremlscope.formats.recordings.activity import unit_samples
from coremlscope.formats.recordings.stacks import CONVERSION, LAYERS, PastedStacks, is_frame, read_stacks
from coremlscope.interop.listing import Imported, ListingOrigin
from coremlscope.interop.phases import measurement_of
from coremlscope.interop.source import SourceFile
from coremlscope.results.recording import Recording

#: What frames of a unit's software belong to, and how many functions are named.
_LIBRARIES: Mapping[str, str] = {
    CPU: "BNNS",
    GPU: "Metal and MPSGraph",
    NEURAL_ENGINE: "the Neural Engine's client",
}
_LISTED = 3


def matches(source: SourceFile) -> bool:
    """By a line that is a frame."""
    if b"\0" in source.head or source.head.lstrip()[:1] in (b"{", b"[", b"<"):
        return False
    return any(map(is_frame, source.head.decode("utf-8", "replace").splitlines()))


def read(source: SourceFile, origin: ListingOrigin) -> Imported:
    """Reads a file.

    Raises:
        UsageError: It has no stack.
    """
    stacks = read_stacks(source.content.decode("utf-8", "replace").splitlines())
    if not stacks.total:
        raise UsageError(f"{source.name} has no call stack", "paste the lines with the frames, unchanged")
    recording = Recording(
        tool="call stacks",
        samples=unit_samples(stacks.frames),
        total_samples=stacks.total,
    )
    measured = measurement_of(origin, {}, recording=recording)
    assert measured is not None
    return Imported(origin=origin, measurements=(measured,), findings=tuple(_findings(stacks)))


def _findings(stacks: PastedStacks) -> Iterator[Finding]:
    """Says which layers the stacks pass, from the app inwards, and what converts images in them."""
    of = f"of {stacks.total}"
    passed = {
        name: n for name in (*LAYERS, *_LIBRARIES) if name != CONVERSION and (n := stacks.passing(name))
    }
    if passed.keys() & LAYERS.keys():
        listed = ", ".join(f"{_LIBRARIES.get(name, name)} {n}" for name, n in passed.items())
        text = f"Stacks {of} with frames of each layer, from the app inwards: {listed}."
        yield Finding(id="stack-layers", severity="info", text=text)
    functions: Counter[str] = Counter()
    for (layer, function, _), n in stacks.frames.items():
        functions[function] += n * (layer == CONVERSION)
    converting = sorted(((n, name) for name, n in functions.items() if n), reverse=True)
    if converting:
        named = ", ".join(f"{escape_controls(name)} ({n})" for n, name in converting[:_LISTED])
        text = f"Images are resized or converted in {sum(n for n, _ in converting)} {of} stacks: {named}."
        hint = "pass images of the size and the pixel format that the model's input declares"
        yield Finding(id="stack-conversions", severity="info", text=text, hint=hint)
