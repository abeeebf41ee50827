"""A small bundle, and what coreai-core writes of it in MLIR's encoding: both are recorded in `tests/data`.

`python -m tests.support.rewritten_bundle FOLDER` makes them; it needs coreai-core and coreai-torch.
"""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

__all__ = ["RECORDED", "make", "recorded_rewriting"]

RECORDED = Path(__file__).parents[1] / "data" / "core_ai_rewritten"
_COPY = "import shutil, sys; shutil.copytree(sys.argv[1], sys.argv[3], dirs_exist_ok=True)"


def recorded_rewriting() -> list[str]:
    """Returns a command that gives the recorded files instead of running coreai-core."""
    return [sys.executable, "-c", _COPY, str(RECORDED / "rewritten")]


def make(folder: Path) -> None:
    """Writes the bundle, and what coreai-core makes of it."""
    import coreai_torch  # type: ignore[import-not-found,unused-ignore]
    import torch
    from torch import nn

    from coremlscope.formats.aimodel.reader import REWRITING

    class Net(nn.Module):
        """Padding, a composite, a state, truth values, large and small weights, a cumulative sum."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.norm = nn.Conv2d(2, 4, 3, padding=1), nn.LayerNorm(16)
            self.register_buffer("seen", torch.zeros(1, 4, 4, 16))
            self.register_buffer("mask", torch.arange(16) % 3 == 0)
            self.table = nn.Parameter(torch.linspace(-1, 1, 4 * 4 * 16).reshape(1, 4, 4, 16))

        def forward(self, x: Any) -> Any:
            found = self.norm(nn.functional.gelu(self.first(x)))
            self.seen.add_(found)
            return torch.where(self.mask, self.seen, found * self.table).cumsum(1)

    torch.manual_seed(3)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = torch.export.export(Net().eval(), (torch.randn(1, 2, 4, 16),))
        exported = exported.run_decompositions(coreai_torch.get_decomp_table())
        converter = coreai_torch.TorchConverter(mode=coreai_torch.TorchConverter.Mode.RELEASE)
        program = converter.add_exported_program(exported, input_names=["x"], output_names=["y"]).to_coreai()
    program.save_asset(folder / "net.aimodel")
    (folder / "rewritten").mkdir()
    subprocess.run([*REWRITING, str(folder / "net.aimodel"), str(folder / "rewritten")], check=True)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
