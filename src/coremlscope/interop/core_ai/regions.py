"""Imports how a compiled Core AI model (`.aimodelc`) is divided: its regions for each accelerator.

The format is not published. Regions are files named `FUNCTION_ANE_region_N_M…mlir.bc`, in a folder of the
architecture; a preference for the Neural Engine that cannot be kept leaves no such file, without any error.
(Source: john-rocky/coreai-model-zoo, regions and fp32 operations.)
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from coremlscope.base.errors import UsageError
from coremlscope.base.findings import Finding
from coremlscope.formats.aimodel.compiled_bundle import list_facts
from coremlscope.interop.listing import Imported, ListingOrigin
from coremlscope.interop.source import SourceFile

_SUFFIX = ".aimodelc"
_REGION = re.compile(r"(?P<function>.*)_(?P<unit>ANE|GPU)_region_.*\.mlir\.bc$", re.DOTALL)
#: More files than any compiled model has.
_MOST_FILES = 200_000
_LISTED = 8


class Regions(msgspec.Struct, frozen=True):
    """Regions by architecture and function.

    Attributes:
        neural_engine: Number of regions for the Neural Engine.
        gpu: Number of regions for the GPU.
    """

    neural_engine: Counter[tuple[str, str]]
    gpu: Counter[tuple[str, str]]


def matches(source: SourceFile) -> bool:
    """By the suffix."""
    return source.path.suffix == _SUFFIX and source.path.is_dir()


def read(source: SourceFile, origin: ListingOrigin) -> Imported:
    """Counts the regions and the operations of a compiled model.

    Raises:
        UsageError: The folder cannot be read, or has too many files.
    """
    regions = count_regions(source.path)
    findings = (*_findings(regions, origin), *_operations(source.path, origin))
    return Imported(origin=origin, model=source.path.stem.partition(".")[0], findings=findings)


def count_regions(folder: Path) -> Regions:
    """Counts the regions in a compiled model; links are not followed.

    Raises:
        UsageError: The folder cannot be read, or has too many files.
    """
    found = Regions(Counter(), Counter())
    count = 0
    for parent, _, files in os.walk(folder, onerror=_fail):
        count += len(files)
        if count > _MOST_FILES:
            raise UsageError(f"{folder} has more than {_MOST_FILES} files", "name a compiled model")
        for name in files:
            region = _REGION.match(name)
            if region is not None:
                counts = found.neural_engine if region["unit"] == "ANE" else found.gpu
                counts[Path(parent).name, region["function"]] += 1
    return found


def _fail(error: OSError) -> None:
    raise UsageError(f"{error.filename}: {error.strerror or error}", "check the path") from error


def _findings(regions: Regions, origin: ListingOrigin) -> Iterator[Finding]:
    if not regions.neural_engine:
        yield Finding(
            id="no-neural-engine-regions",
            severity="warning",
            text=f"{origin.file} has no region for the Neural Engine: everything runs on the GPU or the CPU,"
            " whatever unit it was compiled for.",
            hint="`coremlscope plan` on the .aimodel shows why, operation by operation",
        )
        return
    listed = [
        f"{count} in {function} for {architecture}"
        for (architecture, function), count in regions.neural_engine.most_common(_LISTED)
    ]
    more = len(regions.neural_engine) - len(listed)
    rest = f" and {more} more functions" if more > 0 else ""
    yield Finding(
        id="neural-engine-regions",
        severity="info",
        text=f"Regions of {origin.file} for the Neural Engine: {', '.join(listed)}{rest};"
        f" {regions.gpu.total()} for the GPU.",
        hint="each further region cost 0.6 to 1.75 ms a prediction where it was measured",
    )


def _operations(folder: Path, origin: ListingOrigin) -> Iterator[Finding]:
    """Yields what the bundle counts of its source, if it holds the file with the counts."""
    facts = dict(list_facts(folder))
    if "operations" in facts:
        yield Finding(
            id="core-ai-operations",
            severity="info",
            text=f"Operations of the source of {origin.file}: {facts['operations']}.",
            hint=f"run by {facts['delegates']}" if "delegates" in facts else "",
        )
