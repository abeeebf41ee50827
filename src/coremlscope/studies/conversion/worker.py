"""The child process that converts: writes the models, and sends why one could not be converted.

Converters print much, import for seconds and may end the process, so nothing of them runs in the parent.
"""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

from coremlscope.base.processes.channel import open_channel, send

#: Begins the problem of a target whose converter is not installed.
MISSING = "not installed: "
_LONGEST = 300


def convert(path: str, folder: str, *targets: str) -> None:
    """Converts a program.

    Args:
        path: The program.
        folder: The folder to write to.
        targets: The frameworks.
    """
    open_channel()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    problems: dict[str, str] = {}
    try:
        import torch

        program: Any = torch.export.load(path)
    except ImportError as error:
        problems = dict.fromkeys(targets, f"{MISSING}{error.name}")
    except Exception as error:
        # torch raises any exception for files that are not its own.
        problems = dict.fromkeys(targets, f"PyTorch cannot load it: {_first_line(error)}")
    else:
        for name in targets:
            try:
                _CONVERTERS[name](program, Path(folder) / f"model{_SUFFIXES[name]}")
            except ImportError as error:
                problems[name] = f"{MISSING}{error.name}"
            except Exception as error:
                # Converters raise any exception for what they do not support.
                problems[name] = _first_line(error)
    send(problems=problems)


def _to_core_ml(program: Any, target: Path) -> None:
    """Converts to an ML Program in the precision of the program's weights."""
    import coremltools as ct
    import torch

    halves = {torch.float16, torch.bfloat16}
    is_half = any(weight.dtype in halves for weight in program.state_dict.values())
    precision = ct.precision.FLOAT16 if is_half else ct.precision.FLOAT32
    model = ct.convert(
        program.run_decompositions({}),
        compute_precision=precision,
        minimum_deployment_target=ct.target.iOS18,
        skip_model_load=True,
    )
    model.save(str(target))


def _to_core_ai(program: Any, target: Path) -> None:
    import coreai_torch

    lowered = program.run_decompositions(coreai_torch.get_decomp_table())
    names = list(program.graph_signature.user_inputs)
    converter = coreai_torch.TorchConverter().add_exported_program(lowered, input_names=names)
    converter.to_coreai().save_asset(target)


_CONVERTERS = {"core_ml": _to_core_ml, "core_ai": _to_core_ai}
_SUFFIXES = {"core_ml": ".mlpackage", "core_ai": ".aimodel"}


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:_LONGEST]
