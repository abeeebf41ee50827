"""Checks models against limits that are given, or that a project's `pyproject.toml` has."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coremlscope.api.assemble import made_here
from coremlscope.base.errors import UsageError
from coremlscope.formats.container import path_of
from coremlscope.results.gate import GateReport
from coremlscope.studies.gate.checks import check_model
from coremlscope.studies.gate.configuration import (
    Configuration,
    find_configuration,
    limits_of,
    read_configuration,
)
from coremlscope.studies.gate.limits import GateLimits

_Path = str | os.PathLike[str]


def check(*sources: _Path, strict: bool = False, **limits: Any) -> GateReport:
    """Checks models against limits.

    Args:
        *sources: The models.
        strict: Whether a figure fails whose interval reaches over the limit. Otherwise it is uncertain.
        **limits: The limits by the names of the options of `coremlscope check`, with values as there or as
            numbers in SI units: `max_latency={"iphone-13": "33ms"}`, `min_neural_engine=0.95`,
            `max_size="20MB"`, `max_memory="300MB"`, `min_psnr=40`, `reference="float.mlpackage"`,
            `baseline="main.json"`, `tolerance="5%"`, `device=["m1"]`, `os="18"`, `compute_units="all"`,
            `shape={"x": [1, 3, 224, 224]}`, `function=["decode"]`, `only=["latency", "size"]`.

    Returns:
        The models with their limits; `failed` lists those that are not kept. A model that cannot be read
        has a failure.

    Raises:
        UsageError: A limit, a device or the baseline is wrong.
    """
    return check_limits([(path_of(source), limits_of(limits, Path())) for source in sources], strict=strict)


def check_limits(models: Sequence[tuple[Path, GateLimits]], *, strict: bool) -> GateReport:
    """Checks each model against its limits.

    Raises:
        UsageError: There are no models, or a limit is wrong.
    """
    if not models:
        raise UsageError("no model is named", "name models, or list them in pyproject.toml; see --help")
    every = [limits for _, limits in models]
    names_devices = any(one.all_devices or one.baseline for one in every)
    if not names_devices and any(one.os or one.compute_units or one.format for one in every):
        raise UsageError(
            "--os, --compute-units and --format are of figures on devices, and no limit is of one",
            "add --device iphone-13, or leave them out",
        )
    return GateReport(
        made=made_here(),
        strict=strict,
        models=tuple(check_model(path, limits) for path, limits in models),
    )


def check_project(
    config: _Path | None = None, *, models: Sequence[_Path] = (), strict: bool = False, **limits: Any
) -> GateReport:
    """Checks the models of a project against the limits in its `pyproject.toml`.

    Args:
        config: The file; None for the nearest one at or above the current folder that has
            `[tool.coremlscope]`.
        models: The models to check; empty for all.
        strict: Whether uncertain limits fail; so does `strict = true` in the file.
        **limits: Limits that replace those of the file, as for `check`.

    Raises:
        UsageError: There is no such file, an entry is wrong, or the file does not list a model.
    """
    path = find_configuration(Path.cwd()) if config is None else Path(config)
    if path is None:
        raise UsageError(
            "there is no limit to check, and no pyproject.toml with [tool.coremlscope]",
            "give limits such as --max-size 20MB, or add the table; see --help",
        )
    found = read_configuration(path, limits)
    return check_limits(_chosen(found, models, path), strict=strict or found.strict)


def _chosen(
    configuration: Configuration, only: Sequence[_Path], path: Path
) -> Sequence[tuple[Path, GateLimits]]:
    if not only:
        return configuration.models
    chosen = []
    for source in dict.fromkeys(only):
        # One that is listed twice is held to both.
        listed = [one for one in configuration.models if one[0].resolve() == Path(source).resolve()]
        if not listed:
            raise UsageError(
                f"{path} does not list {source}", "add it to its models, or give limits as options"
            )
        chosen += listed
    return chosen
