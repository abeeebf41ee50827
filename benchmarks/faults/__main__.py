"""`make bench-verify`: how many of the faults that are planted into networks at random `verify` finds."""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks.faults.networks import NETWORKS, Small
from benchmarks.faults.planting import KINDS
from benchmarks.faults.scoring import Score, score_kind, verify_or_fail
from benchmarks.faults.written_scoring import list_false_alarms, score_written
from coremlscope.formats import container
from coremlscope.ir import Model
from tests.support.faulty_networks import convert


def main() -> None:
    """Prints each fault that was missed, and a table of the kinds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="seed of sites and inputs")
    parser.add_argument("--faults", type=int, default=4, help="faults of each kind, in different networks")
    parser.add_argument("--kind", action="append", help="a kind; may be given several times")
    parser.add_argument("--written", action="store_true", help="networks whose own code has a fault instead")
    parser.add_argument("--network", action="append", help="a written network; may be given several times")
    parser.add_argument("--models", type=Path, help="a folder to keep conversions in")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.written:
            kept = options.models or Path(folder)
            _print_scores(score_written(kept, options.seed, options.kind, options.network))
            if not options.kind:
                print(list_false_alarms(kept, options.seed, options.network))
            return
        networks = {small.name: _Converted(small, options.models or Path(folder)) for small in NETWORKS}
        _print_scores(_scores(networks, options))
        print(_false_alarms(networks, options.seed))


def _print_scores(found: Iterator[Score]) -> None:
    """Prints the misses as they are found, and the table of all."""
    scores: list[Score] = []
    for score in found:
        scores.append(score)
        if not (score.is_named and score.is_kind and score.is_cause and score.is_fixed):
            print(_miss(score), flush=True)
    print(_table(scores))


class _Converted:
    """A network, its conversions, and the references, made when they are needed."""

    def __init__(self, small: Small, folder: Path) -> None:
        self.small, self.folder, self.module = small, folder, small.make()
        self.models: dict[bool, Model] = {}
        self.references: list[Any] = []

    def model(self, *, fp16: bool) -> Model:
        if fp16 not in self.models:
            path = self.folder / f"{self.small.name}-{fp16}.mlpackage"
            if not path.exists():
                convert(self.module, self.small.shape, path, fp16=fp16)
            self.models[fp16] = container.read(path)
        return self.models[fp16]

    def forms(self) -> list[Any]:
        if not self.references:
            path = self.folder / f"{self.small.name}.onnx"
            if not path.exists():
                example = (torch.zeros(self.small.shape),)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    torch.onnx.export(self.module, example, str(path), input_names=["x"], verbose=False)
            self.references = [self.module, path, self.model(fp16=False)]
        return self.references


def _scores(networks: dict[str, _Converted], options: argparse.Namespace) -> Iterator[Score]:
    names = list(networks)
    for place, kind in enumerate(KINDS):
        if options.kind and kind.name not in options.kind:
            continue
        found = 0
        start = (options.seed * 5 + place) % len(names)
        for name in names[start:] + names[:start]:
            network = networks[name]
            seed = options.seed * 1000 + place * 20 + found
            score = score_kind(name, network.model(fp16=kind.is_precision), network.forms(), kind, seed)
            if score is not None:
                found += 1
                yield score
            if found == options.faults:
                break


def _miss(score: Score) -> str:
    flags = " ".join(
        name
        for name, is_right in (
            ("op", score.is_named),
            ("kind", score.is_kind),
            ("cause", score.is_cause),
            ("fix", score.is_fixed),
        )
        if not is_right
    )
    faults = () if score.found is None else score.found.faults
    said = "; ".join(f"{f.kind} {f.name} ({f.type}) {f.cause}: {f.text}" for f in faults[:2])
    reference = "" if score.found is None else f" by {score.found.reference}"
    return (
        f"[{flags}] {score.kind} in {score.network}{reference}: {score.text}"
        f"\n    found: {score.failure or said or 'nothing'}"
    )


def _table(scores: list[Score]) -> str:
    rows = defaultdict(list)
    for score in scores:
        rows[score.kind].append(score)
    lines = ["", "| fault | planted | operation | kind | cause | fixed |", "|---|---|---|---|---|---|"]
    for name, group in [*rows.items(), ("all", scores)]:
        counts = [
            sum(getattr(s, key) for s in group) for key in ("is_named", "is_kind", "is_cause", "is_fixed")
        ]
        lines.append(f"| {name} | {len(group)} | {' | '.join(map(str, counts))} |")
    return "\n".join(lines)


def _false_alarms(networks: dict[str, _Converted], seed: int) -> str:
    wrong = []
    for name, network in networks.items():
        for reference in network.forms():
            for fp16 in (False, True):
                found = verify_or_fail(network.model(fp16=fp16), reference, seed)
                if isinstance(found, str):
                    wrong.append(f"{name}: {found}")
                elif not found.passed or found.faults:
                    wrong.append(f"{name} by {found.reference}")
    return f"\nHealthy networks that fail: {', '.join(wrong) or 'none'} of {6 * len(networks)}."


if __name__ == "__main__":
    main()
