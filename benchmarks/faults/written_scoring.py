"""Converts networks whose code has a fault, verifies them against the right ones, and scores that."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.faults.ported import PORTED
from benchmarks.faults.scoring import Score, describe_failure, verify_or_fail
from benchmarks.faults.sequences import SEQUENCES
from benchmarks.faults.vision import VISION
from benchmarks.faults.written import WRITTEN, Faulty, Written
from coremlscope.formats import container
from coremlscope.results.verification import Verification
from tests.support.faulty_networks import convert

__all__ = ["list_false_alarms", "score_written"]


_NETWORKS = {**WRITTEN, **PORTED, **VISION, **SEQUENCES}


def score_written(
    folder: Path, seed: int, kinds: Sequence[str] | None, networks: Sequence[str] | None
) -> Iterator[Score]:
    """Verifies each network with each of its faults.

    Args:
        folder: Where conversions are kept.
        seed: Draws the place of each fault, its reference (PyTorch, ONNX, a conversion) and the inputs.
        kinds: The names of faults; all if empty.
        networks: The names of networks; all if empty.
    """
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    for name, network in _NETWORKS.items():
        for fault in network.faults:
            site, form = int(random.integers(fault.sites)), int(random.integers(3))
            if (not kinds or fault.name in kinds) and (not networks or name in networks):
                yield from _score_fault(folder, name, fault, site, form, seed)


def list_false_alarms(folder: Path, seed: int, networks: Sequence[str] | None) -> str:
    """Verifies each right network, in float32, against each form of itself, and lists those that fail."""
    wrong, count = [], 0
    for name in networks or _NETWORKS:
        right = _make(name, None, 0)
        package = folder / f"{name}-right.mlpackage"
        if not package.exists():
            convert(right, right.shape, package, fp16=False, **right.image)
        for form in range(3):
            count += 1
            found = verify_or_fail(container.read(package), _written_as(form, right, folder / name), seed)
            if isinstance(found, str):
                wrong.append(f"{name}: {found}")
            elif not found.passed or found.faults:
                wrong.append(f"{name} by {found.reference}")
    return f"\nRight networks that fail: {', '.join(wrong) or 'none'} of {count}."


def _score_fault(folder: Path, name: str, fault: Written, site: int, form: int, seed: int) -> Iterator[Score]:
    """Yields the score of a fault, unless it does not change the outputs by more than the tolerance."""
    text = f"at place {site}"
    try:
        wrong = _make(name, fault.name, site)
        path = folder / f"{name}-{fault.name.replace(' ', '-')}-{site}"
        package = path.with_suffix(".mlpackage")
        if not package.exists():
            convert(wrong, wrong.shape, package, fp16=fault.is_precision, **wrong.image)
        has_same_code = fault.is_precision or fault.reference == "same"
        right = wrong if has_same_code else _make(name, None, 0)
        if fault.reference != "right":
            form = 0  # A conversion has neither a mode nor wide integers.
            right.train(fault.reference == "training")
        reference = _written_as(form, right, path if has_same_code else folder / name)
        model = container.read(package)
    except Exception as failure:  # The converter has no such operation.
        print(f"{fault.name} in {name} cannot be converted: {describe_failure(failure)}")
        return
    found = verify_or_fail(model, reference, seed)
    if isinstance(found, str):
        yield Score(network=name, kind=fault.name, text=text, found=None, failure=found)
    elif fault.reference == "training":
        is_noted = any(finding.id == "reference-in-training-mode" for finding in found.findings)
        flags = dict.fromkeys(("is_named", "is_kind", "is_cause", "is_fixed"), is_noted)
        yield Score(network=name, kind=fault.name, text=text, found=found, **flags)
    elif found.passed:
        print(f"{fault.name} in {name} {text} changes no output by more than the tolerance")
    else:
        yield _score(name, fault, text, found)


def _make(name: str, fault: str | None, site: int) -> Faulty:
    torch.manual_seed(3)
    network = _NETWORKS[name](fault, site)
    network.eval()
    return network


def _written_as(form: int, module: Faulty, path: Path) -> Any:
    """Returns a network as a module, an ONNX file, or a conversion in float32."""
    if form != 2:
        module.is_given_pixels = bool(module.image)
    if form == 0:
        return module
    if form == 1:
        made = path.with_suffix(".onnx")
        if not made.exists():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                example = (torch.zeros(module.shape),)
                torch.onnx.export(module, example, str(made), input_names=["x"], verbose=False)
        return made
    made = path.with_name(f"{path.name}-reference.mlpackage")
    return made if made.exists() else convert(module, module.shape, made, fp16=False, **module.image)


def _score(name: str, fault: Written, text: str, found: Verification) -> Score:
    first = found.faults[0] if found.faults else None
    wanted = "precision" if fault.is_precision else "conversion"
    return Score(
        network=name,
        kind=fault.name,
        text=text,
        found=found,
        is_named=first is not None and _is_right(fault, first.name, first.type),
        is_kind=first is not None and first.kind == wanted,
        is_cause=first is not None and first.cause in fault.causes.split("|"),
        is_fixed=any(fix.works for fix in found.fixes),
    )


def _is_right(fault: Written, name: str, kind: str) -> bool:
    """Returns whether an operation is one that has the fault, by its variable or type."""
    return any(
        re.fullmatch(wanted[5:], kind)
        if wanted.startswith("type:")
        else re.match(rf"({wanted})(_|\d|$)", name)
        for wanted in fault.ops.split("|")
    )
