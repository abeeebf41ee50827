"""Times `verify` next to an older version: `python -m benchmarks.faults.times`.

A transformer of 1.2 million parameters and a ResNet-50, each against itself in PyTorch and a damaged copy.
The figure is the processor time of the command with all its threads; versions take turns. What a command
takes at least, as PyTorch is imported and its program is read, is timed as well.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from benchmarks.waits import older_source, processor_seconds

__all__ = ["main"]

#: The version that ratios refer to, and the highest good ratio.
_OLDER, _RATIO = "443e7929", 0.25
#: What every command does at least.
_FLOOR = "import resource, sys, torch; torch.export.load(sys.argv[1]); print(sum(resource.getrusage(0)[:2]))"


def _transformer() -> tuple[nn.Module, torch.Tensor]:
    layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 6, enable_nested_tensor=False), torch.randn(1, 64, 128)


class _Bottleneck(nn.Module):
    """The block of a ResNet-50."""

    def __init__(self, given: int, width: int, step: int) -> None:
        super().__init__()
        sizes = ((given, width, 1, 1), (width, width, 3, step), (width, 4 * width, 1, 1))
        parts = [
            nn.Sequential(nn.Conv2d(i, o, k, s, k // 2, bias=False), nn.BatchNorm2d(o))
            for i, o, k, s in sizes
        ]
        self.body = nn.Sequential(parts[0], nn.ReLU(), parts[1], nn.ReLU(), parts[2])
        short = nn.Sequential(nn.Conv2d(given, 4 * width, 1, step, bias=False), nn.BatchNorm2d(4 * width))
        self.short = nn.Identity() if given == 4 * width and step == 1 else short

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.body(x) + self.short(x)).relu()


def _resnet() -> tuple[nn.Module, torch.Tensor]:
    parts: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    parts.append(nn.MaxPool2d(3, 2, 1))
    given = 64
    for width, count in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for place in range(count):
            parts.append(_Bottleneck(given, width, 2 if place == 0 and width > 64 else 1))
            given = 4 * width
    parts += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(given, 1000)]
    return nn.Sequential(*parts), torch.randn(1, 3, 224, 224)


_NETWORKS: dict[str, Callable[[], tuple[nn.Module, torch.Tensor]]] = {
    "transformer": _transformer,
    "resnet50": _resnet,
}


def _write(name: str, folder: Path) -> tuple[Path, dict[str, Path]]:
    """Converts a network; returns the model, and the references by what they are."""
    import coremltools as ct

    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(False)  # coremltools cannot convert it.
    module, example = _NETWORKS[name]()
    module.eval()
    damaged = copy.deepcopy(module)
    layers = [part for part in damaged.modules() if isinstance(part, (nn.Linear, nn.Conv2d))]
    with torch.no_grad():
        weight = layers[2 * len(layers) // 3].weight
        weight.copy_(weight.flatten()[torch.randperm(weight.numel())].reshape(weight.shape))
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        model = ct.convert(
            torch.jit.trace(module, example, check_trace=False),
            inputs=[ct.TensorType(name="x", shape=example.shape, dtype=np.float32)],
            minimum_deployment_target=ct.target.iOS17,
            skip_model_load=True,
        )
        model.save(str(folder / f"{name}.mlpackage"))
        references = {"sound": module, "damaged": damaged}
        for kind, one in references.items():
            torch.export.save(torch.export.export(one, (example,)), str(folder / f"{name}-{kind}.pt2"))
    return folder / f"{name}.mlpackage", {kind: folder / f"{name}-{kind}.pt2" for kind in references}


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the seconds and ratios of each network."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults.times", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--older", default=_OLDER, metavar="COMMIT")
    parser.add_argument("--network", action="append", choices=_NETWORKS, help="this one only (repeatable)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sources = (older_source(options.older, folder / "older"), Path(__file__).resolve().parents[2] / "src")
        print(f"{'network':22} {'older':>7} {'now':>6} {'floor':>6} {'ratio':>6}", flush=True)
        for network in options.network or _NETWORKS:
            model, references = _write(network, folder)
            for kind, reference in references.items():
                words = ["verify", str(model), "--reference", str(reference)]
                pairs = [
                    [processor_seconds(source, words, codes=(0, 11)) for source in sources]
                    for _ in range(options.rounds)
                ]
                command = [sys.executable, "-c", _FLOOR, str(reference)]
                floor = float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
                before, now = (statistics.median(times) for times in zip(*pairs, strict=True))
                ratio = statistics.median(own / old for old, own in pairs)
                mark = "" if ratio <= _RATIO else f"  above {_RATIO}"
                print(f"{network + ', ' + kind:22} {before:7.2f} {now:6.2f} {floor:6.2f} {ratio:6.2f}{mark}")


if __name__ == "__main__":
    main()
