"""`python -m benchmarks.agreement`: how many published plans and latencies we reproduce, by publication.

python -m benchmarks.agreement             prints what differs from the floors in tests/data/agreement.json
python -m benchmarks.agreement FILE        prints what differs from those of a file
python -m benchmarks.agreement --write     writes the floors

It needs nothing but this repository: networks are built in code, kernels of measured ones are numbers.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.latency.dataset import load_measurements, load_networks
from benchmarks.latency.first_sight import estimate_one
from benchmarks.plan.agreement import compare_context, compare_support
from benchmarks.plan.depth import compare_depth
from benchmarks.plan.wholes import compare_built, compare_shapes

__all__ = ["FLOORS", "differences", "measure"]

FLOORS = Path(__file__).parents[1] / "tests" / "data" / "agreement.json"


def measure() -> dict[str, int]:
    """Returns the number of published facts that are reproduced, by subject."""
    found: dict[str, int] = {}
    with contextlib.redirect_stderr(io.StringIO()):
        for compare in (compare_support, compare_context, compare_shapes, compare_depth, compare_built):
            found |= {f"plan · {one.name}": one.right for one in compare()}
    networks = load_networks()
    within: dict[str, int] = defaultdict(int)
    for m in load_measurements():
        if m.ran_on not in ("", "idle"):
            subject = f"latency · {m.publication} · {m.ran_on} · rows within the interval"
            within[subject] += m.ms in estimate_one(m, networks)
    return found | within


def differences(found: Mapping[str, int], floors: Mapping[str, int]) -> Iterator[str]:
    """Yields a line for each subject whose number differs from its floor."""
    for name in sorted(found | floors):
        ours, floor = found.get(name), floors.get(name)
        if ours != floor:
            yield f"{name}: {'none' if floor is None else floor} -> {'none' if ours is None else ours}"


def main() -> None:
    """Prints or writes the agreement."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", nargs="?", type=Path, default=FLOORS)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    found = measure()
    if arguments.write:
        FLOORS.write_text(json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
        return
    lines = list(differences(found, json.loads(arguments.file.read_text())))
    print("\n".join(lines) or "nothing differs")


if __name__ == "__main__":
    main()
