"""Counts the verdicts of `verify` on sound conversions, on unlike classifiers, and on damaged twins with
one mistake each.

Networks, kinds of damage and seeds are fixed: checks are not tuned on them. A verdict on a twin whose outputs
differ by less than the tolerance does not count.
"""

from __future__ import annotations

import argparse
import collections
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.faults.networks import NETWORKS, Network, build
from benchmarks.faults.twins import Twin, permute_classes, twins_of, without_preprocessing
from coremlscope import verify
from coremlscope.base.errors import CoremlscopeError
from coremlscope.model.subject import Subject
from coremlscope.results.verification import Verification

#: Outputs that differ by less, relative to their range, are those of the sound network.
_SAME = 0.05


def convert(network: Network, module: nn.Module, path: Path, *, is_half: bool) -> Path:
    """Converts a network by coremltools."""
    import coremltools as ct

    example = network.draw(0)
    if network.kind == "words":
        example = example.int()
    types = {"dtype": np.int32 if network.kind == "words" else np.float32}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        model = ct.convert(
            torch.jit.trace(module.eval(), example, check_trace=False),
            inputs=[ct.TensorType(name="x", shape=network.shape, **types)],
            compute_precision=ct.precision.FLOAT16 if is_half else ct.precision.FLOAT32,
            minimum_deployment_target=ct.target.iOS17,
            skip_model_load=True,
        )
        model.save(str(path))
    return path


@dataclass
class Score:
    """Counted verdicts, and what was wrong."""

    counts: collections.Counter[str] = field(default_factory=collections.Counter)
    wrong: list[str] = field(default_factory=list)

    def add(self, group: str, what: str, is_right: bool, detail: str) -> None:
        self.counts[f"{group}: all"] += 1
        self.counts[f"{group}: right"] += is_right
        if not is_right:
            self.wrong.append(f"{group}: {what}: {detail}")
            print(self.wrong[-1], flush=True)


def _verified(model: Path, reference: Any, seed: int) -> Verification | CoremlscopeError:
    try:
        return verify(Subject(model, seed=seed), reference)
    except CoremlscopeError as error:
        return error


def _failed(found: Verification | CoremlscopeError) -> str:
    """Returns which outputs differ; empty if all agree."""
    if isinstance(found, CoremlscopeError):
        return f"error: {found}"
    return "; ".join(f"{one.name} ({one.run}) {one.why}" for one in found.outputs if not one.passed)


def score_verdicts(score: Score, seed: int, folder: Path, names: set[str]) -> None:
    """Verifies forty sound conversions, and forty pairs of unrelated or damaged classifiers."""
    modules = {one.name: build(one, seed) for one in NETWORKS if not names or one.name in names}
    halves: dict[str, Path] = {}
    for network in (one for one in NETWORKS if one.name in modules):
        module = modules[network.name]
        half = halves[network.name] = convert(
            network, module, folder / f"{network.name}.mlpackage", is_half=True
        )
        whole = convert(network, module, folder / f"{network.name}-32.mlpackage", is_half=False)
        for label, reference in (("module", module), ("fp32", whole)):
            failed = _failed(_verified(half, reference, seed))
            score.add("sound", f"{network.name} against {label}, seed {seed}", not failed, failed)
    for what, model, reference in _unlike(modules, halves, seed, folder):
        found = _verified(model, reference, seed)
        is_right = isinstance(found, Verification) and not found.passed
        score.add("unlike", f"{what}, seed {seed}", is_right, "passed" if not is_right else "")


def _unlike(
    modules: dict[str, nn.Module], halves: dict[str, Path], seed: int, folder: Path
) -> Iterator[tuple[str, Path, Any]]:
    """Yields pairs that must not pass: ten without preprocessing, thirteen with classes in another order, and
    seventeen networks of equal interface in place of each other."""
    classifiers = [one for one in NETWORKS if one.is_classifier and one.name in modules]
    pictures = [one for one in classifiers if one.kind == "pixels"]
    for place, network in enumerate(pictures):
        bare = without_preprocessing(modules[network.name])
        path = convert(network, bare, folder / f"{network.name}-bare.mlpackage", is_half=place % 2 == 0)
        whole = folder / f"{network.name}-32.mlpackage"
        yield f"{network.name} without preprocessing", path, whole if place % 3 else modules[network.name]
    for network in classifiers:
        twin = permute_classes(modules[network.name], seed)
        yield f"{network.name} with classes in another order", halves[network.name], twin
    swaps = [(a, b) for a in pictures for b in pictures if a is not b][seed % 5 :: 5][:17]
    for first, second in swaps:
        yield f"{first.name} for {second.name}", halves[first.name], modules[second.name]


def score_twins(score: Score, seed: int, folder: Path, names: set[str]) -> None:
    """Verifies twenty damaged twins of each network: the converted sound network against each."""
    for network in (one for one in NETWORKS if not names or one.name in names):
        module = build(network, seed)
        half = convert(network, module, folder / f"{network.name}.mlpackage", is_half=True)
        for twin in twins_of(network, module, seed):
            if _distance(network, module, twin, seed) > _SAME:
                started = time.perf_counter()
                found = _verified(half, twin.module, seed)
                _score_twin(score, f"{network.name}, {twin.kind}, seed {seed}", twin, found)
                score.counts["twins: seconds"] += round(time.perf_counter() - started)


def _distance(network: Network, module: nn.Module, twin: Twin, seed: int) -> float:
    """Returns the largest difference of an output relative to its range, before a softmax."""
    with torch.no_grad():
        x = network.draw(seed + 7)
        pair = [one[:-1](x) if network.is_classifier else one(x) for one in (module, twin.module)]
    if network.is_classifier:  # What is added to all classes alike has no effect.
        pair = [one - one.mean(-1, keepdim=True) for one in pair]
    outputs = [[one] if isinstance(one, torch.Tensor) else list(one) for one in pair]
    return max(float((a - b).abs().max() / (a.max() - a.min())) for a, b in zip(*outputs, strict=True))


def _score_twin(score: Score, what: str, twin: Twin, found: Verification | CoremlscopeError) -> None:
    if isinstance(found, CoremlscopeError):
        score.add("twins", what, False, f"error: {found}")
        return
    score.add("twins", what, not found.passed, "passed")
    fault = next(iter(found.faults), None)
    if found.passed or fault is None:
        score.counts["twins: no operation named"] += not found.passed
        return
    known = fault.cause != "unknown"
    score.counts["twins: cause named"] += known
    score.counts["twins: cause not known"] += not known
    score.counts["twins: repaired"] += any(one.repairs for one in found.faults)
    if known:
        score.add("causes", what, fault.cause in twin.causes, f"{fault.cause}: {fault.text}")


def main() -> None:
    """Counts, and prints what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="*", default=list(range(10)))
    parser.add_argument("--network", action="append", default=[], help="this one only (repeatable)")
    parser.add_argument("--twins", action="store_true", help="twenty damaged twins of each network")
    options = parser.parse_args()
    score, started = Score(), time.perf_counter()
    for seed in options.seeds:
        with tempfile.TemporaryDirectory(prefix="coremlscope-") as folder:
            run = score_twins if options.twins else score_verdicts
            run(score, seed, Path(folder), set(options.network))
        print(f"seed {seed}:", dict(score.counts), f"{time.perf_counter() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
