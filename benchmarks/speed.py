"""Times this runtime beside ONNX Runtime, OpenVINO and PyTorch on the same networks: `make bench-speed`.

Every runtime gets the same network with the same weights, float32 arithmetic and the same number of
threads, in one process. Rounds take turns: in each, every runtime warms up and then runs a block of
predictions, so that a change of the machine's speed meets all of them. The fastest prediction of a block
counts, as the one that other programs disturbed least; a ratio is taken round by round, and its median is
what counts. ONNX Runtime and OpenVINO read what `torch.onnx` exports; this runtime reads what coremltools
converts to an fp16 program, which is the default there, and beside it (`layers`) what coremltools converts to
a neural network of layers.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.networks import NETWORKS, Network, convert_network
from coremlscope.engines.base import EngineOptions
from coremlscope.execution.executable import CompileOptions, compile_model
from coremlscope.formats.container import read

__all__ = ["main"]

_GOAL = 1.05
_WARMUPS = 3
_NAMES = tuple(network.name for network in NETWORKS[:6])

Predict = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Row:
    """One network's result.

    Attributes:
        network: Its name.
        seconds: The time of a prediction, by runtime: the median over the rounds.
        ratio: The time of this runtime divided by that of ONNX Runtime: median over the rounds.
        ratio_range: The smallest and the largest ratio of a round.
        layers_ratio: The time of the neural network divided by that of the program, both in this runtime:
            median over the rounds.
    """

    network: str
    seconds: dict[str, float]
    ratio: float
    ratio_range: tuple[float, float]
    layers_ratio: float


@dataclass(frozen=True, slots=True)
class Case:
    """A network ready to be run: the module, its export, and the values fed to all runtimes."""

    network: Network
    module: torch.nn.Module
    values: Mapping[str, np.ndarray[Any, Any]]
    folder: Path
    threads: int

    @property
    def export(self) -> Path:
        """Where PyTorch's ONNX export lies."""
        return self.folder / "torch.onnx"


def _coremlscope(case: Case) -> Predict:
    package = case.folder / "network.mlpackage"
    convert_network(case.network, case.network.graph(case.module), package, fp16=True)
    options = CompileOptions(engine_options=EngineOptions(threads=case.threads))
    executable = compile_model(read(package), case.folder / "compiled", options=options)
    return lambda: executable.run(case.values)


def _layers(case: Case) -> Predict:
    model = case.folder / "network.mlmodel"
    convert_network(case.network, case.network.graph(case.module), model, fp16=False, as_layers=True)
    options = CompileOptions(engine_options=EngineOptions(threads=case.threads))
    executable = compile_model(read(model), case.folder / "compiled-layers", options=options)
    return lambda: executable.run(case.values)


def _onnxruntime(case: Case) -> Predict:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = case.threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(case.export, options, providers=["CPUExecutionProvider"])
    kinds = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}
    values = zip(session.get_inputs(), case.values.values(), strict=True)
    feeds = {port.name: value.astype(kinds[port.type]) for port, value in values}
    return lambda: session.run(None, feeds)


def _openvino(case: Case) -> Predict:
    import openvino

    settings = {"INFERENCE_NUM_THREADS": case.threads, "INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.Core().compile_model(str(case.export), "CPU", settings)
    request = compiled.create_infer_request()
    feeds = [
        value.astype(port.element_type.to_dtype())
        for port, value in zip(compiled.inputs, case.values.values(), strict=True)
    ]
    return lambda: request.infer(feeds)


def _pytorch(case: Case) -> Predict:
    torch.set_num_threads(case.threads)
    examples = [torch.from_numpy(value) for value in case.values.values()]

    def predict() -> Any:
        with torch.inference_mode():
            return case.module(*examples)

    return predict


_RUNTIMES: Mapping[str, Callable[[Case], Predict]] = {
    "coremlscope": _coremlscope,
    "layers": _layers,
    "onnxruntime": _onnxruntime,
    "openvino": _openvino,
    "pytorch": _pytorch,
}


def _prepare(network: Network, folder: Path, threads: int) -> dict[str, Predict]:
    """Loads the network into every runtime."""
    case = Case(network, network.make(), network.draw(), folder, threads)
    examples = tuple(torch.from_numpy(value) for value in case.values.values())
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(case.module, examples, case.export, dynamo=True, verbose=False)
    return {name: load(case) for name, load in _RUNTIMES.items()}


def _block(predict: Predict, iterations: int) -> float:
    """The seconds of the fastest of several predictions."""
    for _ in range(_WARMUPS):
        predict()
    fastest = math.inf
    for _ in range(iterations):
        start = time.perf_counter()
        predict()
        fastest = min(fastest, time.perf_counter() - start)
    return fastest


def _time(network: Network, *, threads: int, rounds: int, iterations: int) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        contenders = _prepare(network, Path(folder), threads)
        names = list(contenders)
        blocks: dict[str, list[float]] = {name: [] for name in names}
        for number in range(rounds):
            # Who begins changes from round to round, so that nobody always follows the same neighbour.
            start = number % len(names)
            for name in names[start:] + names[:start]:
                blocks[name].append(_block(contenders[name], iterations))
        pairs = zip(blocks["coremlscope"], blocks["onnxruntime"], strict=True)
        ratios = [ours / theirs for ours, theirs in pairs]
        seconds = {name: statistics.median(times) for name, times in blocks.items()}
        twins = zip(blocks["layers"], blocks["coremlscope"], strict=True)
        layers_ratio = statistics.median(layers / program for layers, program in twins)
        return Row(network.name, seconds, statistics.median(ratios), (min(ratios), max(ratios)), layers_ratio)


def _table(rows: Sequence[Row], threads: int) -> str:
    """The results as a Markdown table, milliseconds a prediction."""
    lines = [
        f"| network, threads: {threads} | {' | '.join(f'{name}, ms' for name in _RUNTIMES)} "
        "| coremlscope / onnxruntime (lowest-highest round) | layers / coremlscope |",
        "|---|" + "--:|" * (len(_RUNTIMES) + 2),
    ]
    for row in rows:
        times = " | ".join(f"{row.seconds[name] * 1e3:.2f}" for name in _RUNTIMES)
        low, high = row.ratio_range
        mark = "" if row.ratio <= _GOAL else f" above {_GOAL}"
        ratio = f"{row.ratio:.3f} ({low:.2f}-{high:.2f}){mark}"
        lines.append(f"| {row.network} | {times} | {ratio} | {row.layers_ratio:.3f} |")
    return "\n".join(lines) + "\n"


def _write(rows: Sequence[Row], threads: int, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "speed.md").write_text(_table(rows, threads), encoding="utf-8")
    result = {"threads": threads, "rows": [asdict(row) for row in rows]}
    (folder / "speed.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the benchmark and writes its table as Markdown and JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__)
    parser.add_argument("--networks", nargs="+", choices=_NAMES, default=_NAMES, metavar="NAME")
    parser.add_argument("--threads", type=int, default=min(os.cpu_count() or 1, 4))
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--iterations", type=int, default=10, help="predictions in a block")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder of speed.md and speed.json")
    options = parser.parse_args(arguments)
    logging.disable(logging.WARNING)
    rows = []
    for network in NETWORKS:
        if network.name in options.networks:
            print(f"{network.name} …", flush=True)
            rows.append(
                _time(network, threads=options.threads, rounds=options.rounds, iterations=options.iterations)
            )
            # After each network, so that what is there survives an interruption.
            _write(rows, options.threads, options.out)
    print(f"\n{_table(rows, options.threads)}")


if __name__ == "__main__":
    main()
