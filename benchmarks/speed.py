"""Benchmarks this runtime, ONNX Runtime, OpenVINO and PyTorch on the same networks: `make bench-speed`.

All runtimes run the same network with the same weights, float32 arithmetic and the same number of threads, in
one process. The rounds are interleaved: in each round every runtime warms up and then runs a block of
predictions, so changes of the machine's speed affect all of them. A block's time is that of its fastest
prediction, which other processes disturb least. Ratios are computed per round, and the median ratio is
reported. ONNX Runtime and OpenVINO read the export of `torch.onnx`. This runtime reads an fp16 program
converted by coremltools, which is coremltools' default, and a neural network of layers (`layers`). As
`--engine auto` does, it takes the engine that was faster in the first rounds; the others are compared: its
time divided by that of the fastest of the other runtimes.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch

from benchmarks.networks import NETWORKS, Network, convert_network
from coremlscope.formats.container import read
from coremlscope.runtime.engines.base import Engine, EngineOptions
from coremlscope.runtime.engines.openvino import OpenVinoEngine
from coremlscope.runtime.execution.executable import CompileOptions, compile_model

__all__ = ["main"]

_GOAL = 1.05
_WARMUPS = 3
#: The first rounds, in which an engine is chosen.
_TRIED = 2
_OURS, _PEERS = ("coremlscope", "coremlscope, OpenVINO"), ("onnxruntime", "openvino", "pytorch")
_NAMES = tuple(network.name for network in NETWORKS[:6])

Predict = Callable[[], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The result of one network.

    Attributes:
        network: The network's name.
        seconds: The median time of a prediction over the rounds, by runtime.
        ratio: The median over the rounds of this runtime's time divided by ONNX Runtime's.
        ratio_range: The smallest and the largest ratio of a round.
        layers_ratio: The median over the rounds of the neural network's time divided by the program's, both
            in this runtime.
    """

    network: str
    seconds: dict[str, float]
    ratio: float
    ratio_range: tuple[float, float]
    layers_ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A network to run.

    Attributes:
        network: The network.
        module: The network as a PyTorch module.
        values: The inputs by name, the same for all runtimes.
        folder: The folder of the exported and compiled models.
        threads: The number of threads.
    """

    network: Network
    module: torch.nn.Module
    values: Mapping[str, np.ndarray[Any, Any]]
    folder: Path
    threads: int

    @property
    def export(self) -> Path:
        """The path of PyTorch's ONNX export."""
        return self.folder / "torch.onnx"


def _coremlscope(case: Case) -> Predict:
    package = case.folder / "network.mlpackage"
    convert_network(case.network, case.network.graph(case.module), package, fp16=True)
    return _compiled(case, package)


def _over_openvino(case: Case) -> Predict:
    return _compiled(case, case.folder / "network.mlpackage", OpenVinoEngine())


def _layers(case: Case) -> Predict:
    model = case.folder / "network.mlmodel"
    convert_network(case.network, case.network.graph(case.module), model, fp16=False, as_layers=True)
    return _compiled(case, model)


def _compiled(case: Case, path: Path, engine: Engine | None = None) -> Predict:
    options = CompileOptions(engine=engine, engine_options=EngineOptions(threads=case.threads))
    suffix = f".{engine.name}" if engine else ".compiled"
    executable = compile_model(read(path), path.with_suffix(suffix), options=options)
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
    "coremlscope, OpenVINO": _over_openvino,
    "layers": _layers,
    "onnxruntime": _onnxruntime,
    "openvino": _openvino,
    "pytorch": _pytorch,
}


def _prepare(network: Network, folder: Path, threads: int) -> dict[str, Predict]:
    """Loads the network into every runtime."""
    case = Case(network=network, module=network.make(), values=network.draw(), folder=folder, threads=threads)
    examples = tuple(torch.from_numpy(value) for value in case.values.values())
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(case.module, examples, case.export, dynamo=True, verbose=False)
    return {name: load(case) for name, load in _RUNTIMES.items()}


def _block(predict: Predict, iterations: int) -> float:
    """The time of the fastest of several predictions, in seconds."""
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
            # The order rotates, because a runtime's time may depend on which one ran before it.
            start = number % len(names)
            for name in names[start:] + names[:start]:
                blocks[name].append(_block(contenders[name], iterations))
        tried = {name: statistics.median(blocks[name][:_TRIED]) for name in _OURS}
        ours = blocks[min(tried, key=tried.__getitem__)][_TRIED:]
        ratios = [
            own / min(blocks[name][_TRIED + number] for name in _PEERS) for number, own in enumerate(ours)
        ]
        seconds = {name: statistics.median(times) for name, times in blocks.items()}
        pairs = zip(blocks["layers"], blocks["coremlscope"], strict=True)
        return Row(
            network=network.name,
            seconds=seconds,
            ratio=statistics.median(ratios),
            ratio_range=(min(ratios), max(ratios)),
            layers_ratio=statistics.median(layers / program for layers, program in pairs),
        )


def _table(rows: Sequence[Row], threads: int) -> str:
    """The results as a Markdown table, in milliseconds per prediction."""
    lines = [
        f"| network, threads: {threads} | {' | '.join(f'{name}, ms' for name in _RUNTIMES)} "
        "| coremlscope / fastest other (lowest-highest round) | layers / coremlscope |",
        "|---|" + "--:|" * (len(_RUNTIMES) + 2),
    ]
    for row in rows:
        times = " | ".join(f"{row.seconds[name] * 1e3:.2f}" for name in _RUNTIMES)
        low, high = row.ratio_range
        mark = "" if row.ratio <= _GOAL else f" above {_GOAL}"
        ratio = f"{row.ratio:.3f} ({low:.2f}-{high:.2f}){mark}"
        lines.append(f"| {row.network} | {times} | {ratio} | {row.layers_ratio:.3f} |")
    mean = statistics.geometric_mean([row.ratio for row in rows])
    return "\n".join([*lines, "", f"Geometric mean of the ratios: {mean:.3f}"]) + "\n"


def _write(rows: Sequence[Row], threads: int, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "speed.md").write_text(_table(rows, threads), encoding="utf-8")
    result = {"threads": threads, "rows": [msgspec.to_builtins(row) for row in rows]}
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
            # Writes after each network, so that an interruption keeps the finished ones.
            _write(rows, options.threads, options.out)
    print(f"\n{_table(rows, options.threads)}")


if __name__ == "__main__":
    main()
