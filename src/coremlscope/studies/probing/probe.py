"""Plans, estimates and times single layers, for every combination of the values of their options."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec.structs

from coremlscope import api
from coremlscope.api.assemble import assemble, with_plans
from coremlscope.api.sources import FAILED
from coremlscope.base.errors import UsageError
from coremlscope.base.findings import Finding
from coremlscope.devices.unit import ComputeUnits
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.measure.contract import Progress
from coremlscope.measure.effort import Effort
from coremlscope.results.model import ModelSummary
from coremlscope.results.profile import Profile
from coremlscope.studies.probing.expression import combinations, parse_probe
from coremlscope.studies.probing.models import build_layer, check_probe, label_of


def probe(
    expression: str,
    devices: str | Sequence[str] = (),
    *,
    os: str | None = None,
    compute_units: ComputeUnits | Literal["every"] | Sequence[ComputeUnits] = "every",
    run: bool = False,
    iterations: int = 10,
    folder: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> tuple[Profile, ...]:
    """Builds a layer for every combination of options, and plans and estimates it for devices.

    Args:
        expression: The kind of layer with options: `conv(dilations=1,2,4, kernel=1..31)`. `KINDS` lists the
            kinds. A layer that cannot be built does not stop the others; its profile has a finding.
        devices: Chips or devices: `m1`, `iphone-15-pro`. They may be left out with `run`.
        os: The version of their systems; the newest known one of each by default.
        compute_units: The settings under which layers are planned, and on a Mac timed.
        run: Times each layer as well, as `profile` does: on a Mac in Core ML, which is not yet confirmed on
            a device, elsewhere on this host.
        iterations: Timed predictions.
        folder: Writes each layer as a package into this folder, which exists; None writes nothing.
        progress: Called with `probe`, the layers done, and how many there are.

    Returns:
        A profile for each layer, whose model has the path `conv(dilations=4, kernel=3)`.

    Raises:
        UsageError: The expression is wrong, or a device or setting is unknown.
        OutputError: A layer cannot be written.
    """
    asked = check_probe(parse_probe(expression))
    if not devices and not run:
        raise UsageError("no device is named", "name one: --device m1; or time the layer here with --run")
    profiles = []
    wanted = list(combinations(asked))
    with tempfile.TemporaryDirectory(prefix="coremlscope-") as scratch:
        for index, options in enumerate(wanted):
            label = label_of(asked.kind, options)
            try:
                model = build_layer(asked.kind, options)
            except UsageError as error:
                if len(wanted) == 1:
                    raise
                profiles.append(_failed(label, error))
                continue
            path = Path(folder or scratch, _file_name(label))
            if run or folder is not None:
                write_mlpackage(model, path, overwrite=True)
            found = api.estimate(model, devices, os=os, compute_units=compute_units) if devices else None
            if run:
                found = _with_times(found, path, compute_units, iterations)
            if found is not None:
                profiles.append(_named(found, label))
            if progress is not None:
                progress("probe", index + 1, len(wanted))
    return tuple(profiles)


def _with_times(
    known: Profile | None,
    path: Path,
    compute_units: ComputeUnits | Literal["every"] | Sequence[ComputeUnits],
    iterations: int,
) -> Profile:
    """Returns the profile of a layer that is measured here, with the plans and estimates that are known."""
    measured = api.profile(
        path,
        compute_units=compute_units,
        iterations=iterations,
        effort=Effort(compile_iterations=1, load_iterations=3),
        keeps_failed=True,
    )
    if known is None:
        return measured
    findings = (*measured.findings, *known.findings)
    extended = msgspec.structs.replace(
        measured, kernels=known.kernels, estimates=known.estimates, findings=findings
    )
    return with_plans(extended, [*measured.plans, *known.plans])


def _named(profile: Profile, label: str) -> Profile:
    return msgspec.structs.replace(profile, model=msgspec.structs.replace(profile.model, path=label))


def _failed(label: str, error: UsageError) -> Profile:
    """Returns a profile that says why a layer cannot be built."""
    finding = Finding(
        id=FAILED, severity="error", text=error.message, hint=error.hint, exit_code=error.exit_code
    )
    return assemble(ModelSummary(path=label), findings=[finding])


def _file_name(label: str) -> str:
    """Returns the name of a layer's package: `conv_dilations-4_kernel-3.mlpackage`."""
    words = re.findall(r"[\w.\-]+", label.replace("=", "-"))
    return f"{'_'.join(words)}.mlpackage"
