"""Benchmarks this runtime, ONNX Runtime, OpenVINO and PyTorch on the same networks: `make bench-speed`.

All runtimes run the same network with the same weights, float32 arithmetic and the same number of threads, in
one process. The rounds are interleaved: in each round every runtime warms up and then runs a block of
predictions, so changes of the machine's speed affect all of them. A block's time is that of its fastest
prediction, which other processes disturb least. ONNX Runtime and OpenVINO read the export of `torch.onnx`.
This runtime reads an fp16 program converted by coremltools, which is coremltools' default, by the engine
that `--engine auto` chooses in a trial of its own. The ratio divides its time by that of the other runtime
with the lowest median, round by round, and the median of these ratios is reported. The loss of `auto` divides
its time by that of this runtime's better engine in the same way.
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

from benchmarks.networks import DECODER_STEP, NETWORKS, Network, convert_network
from coremlscope.formats.container import read
from coremlscope.measure.embedded.fastest import Trial, race
from coremlscope.runtime.engines.base import Engine, EngineOptions
from coremlscope.runtime.engines.onnxruntime import OnnxRuntimeEngine
from coremlscope.runtime.engines.openvino import OpenVinoEngine
from coremlscope.runtime.execution.executable import CompileOptions, compile_model

__all__ = ["main"]

#: The highest good ratio to the best other runtime, and of `auto` to the better engine.
_GOAL, _AUTO_GOAL = 1.05, 1.03
_WARMUPS = 2
#: Seconds of a block, and the fewest predictions in it.
_BLOCK_S, _LEAST_BLOCK = 0.25, 4
_OURS, _PEERS = ("coremlscope", "coremlscope, OpenVINO"), ("onnxruntime", "openvino", "pytorch")
_LEFT_OUT = {"mobileclip_image", "recurrent", "while_loop"}
_NETWORKS = (*(network for network in NETWORKS if network.name not in _LEFT_OUT), DECODER_STEP)
_NAMES = tuple(network.name for network in _NETWORKS)

_PAGE = """# Speed

Written by `make bench-speed`. Each runtime runs the same network with the same weights, in float32 and with
the same number of threads, in interleaved rounds of one process. ONNX Runtime and OpenVINO run PyTorch's own
export; coremlscope runs coremltools' fp16 conversion, by the engine that `--engine auto` chooses. Times are
medians, and ratios are medians of rounds. Sessions of one and the same graph differ by up to 3 %, so
`--runs` loads the networks several times.

"""
Predict = Callable[[], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The result of one network.

    Attributes:
        network: The network's name.
        seconds: The median time of a prediction over the rounds, by runtime.
        auto: The runtime of ours that `--engine auto` chooses, in most runs.
        best: The fastest other runtime.
        ratio: The median over the rounds of our time divided by that of the fastest other runtime.
        ratio_range: The smallest and the largest ratio of a round.
        auto_loss: The median over the rounds of our time divided by that of our better engine.
    """

    network: str
    seconds: dict[str, float]
    auto: str
    best: str
    ratio: float
    ratio_range: tuple[float, float]
    auto_loss: float


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

    @property
    def package(self) -> Path:
        """The path of coremltools' conversion."""
        return self.folder / "network.mlpackage"


class _Functional(torch.nn.Module):
    """A network whose states are further inputs and outputs, as exports to ONNX have them."""

    def __init__(self, module: torch.nn.Module, states: Sequence[str], inputs: int) -> None:
        super().__init__()
        self.module, self.states, self.inputs = module, tuple(states), inputs

    def forward(self, *values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        states = [value.clone() for value in values[self.inputs :]]
        named = dict(zip(self.states, states, strict=True))
        found = torch.func.functional_call(self.module, named, values[: self.inputs])
        return (found, *states)


def _coremlscope(case: Case) -> Predict:
    return _compiled(case, OnnxRuntimeEngine())


def _over_openvino(case: Case) -> Predict:
    return _compiled(case, OpenVinoEngine())


def _compiled(case: Case, engine: Engine) -> Predict:
    options = CompileOptions(engine=engine, engine_options=EngineOptions(threads=case.threads))
    executable = compile_model(read(case.package), case.folder / engine.name, options=options)
    state = executable.new_state()
    return lambda: executable.run(case.values, state)


def _onnxruntime(case: Case) -> Predict:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = case.threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(case.export, options, providers=["CPUExecutionProvider"])
    kinds = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}
    ports = session.get_inputs()
    feeds = {
        port.name: value.astype(kinds[port.type])
        for port, value in zip(ports, _with_states(case), strict=True)
    }
    if not case.network.states:
        return lambda: session.run(None, feeds)
    outputs = [port.name for port in session.get_outputs()]
    held = {name: onnxruntime.OrtValue.ortvalue_from_numpy(value) for name, value in feeds.items()}
    carried = [port.name for port in ports[len(case.values) :]]

    def step() -> Any:
        results = session.run_with_ort_values(outputs, held)
        held.update(zip(carried, results[-len(carried) :], strict=True))
        return results[0].numpy()

    return step


def _openvino(case: Case) -> Predict:
    import openvino

    settings = {"INFERENCE_NUM_THREADS": case.threads, "INFERENCE_PRECISION_HINT": "f32"}
    core = openvino.Core()
    model = core.read_model(str(case.export))
    count = len(case.network.states)
    if count:
        from openvino._offline_transformations import apply_make_stateful_transformation

        pairs = zip(model.inputs[-count:], model.outputs[-count:], strict=True)
        apply_make_stateful_transformation(model, {a.any_name: b.any_name for a, b in pairs})
    compiled = core.compile_model(model, "CPU", settings)
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


def _with_states(case: Case) -> list[np.ndarray[Any, Any]]:
    states = [np.zeros(shape, dtype=np.float32) for shape in case.network.states.values()]
    return [*case.values.values(), *states]


_RUNTIMES: Mapping[str, Callable[[Case], Predict]] = {
    "coremlscope": _coremlscope,
    "coremlscope, OpenVINO": _over_openvino,
    "onnxruntime": _onnxruntime,
    "openvino": _openvino,
    "pytorch": _pytorch,
}


def _prepare(network: Network, folder: Path, threads: int) -> dict[str, Predict]:
    """Loads the network into every runtime."""
    case = Case(network=network, module=network.make(), values=network.draw(), folder=folder, threads=threads)
    if not (case.export.exists() and case.package.exists()):
        examples = tuple(torch.from_numpy(value) for value in _with_states(case))
        states = network.states
        module = _Functional(case.module, tuple(states), len(case.values)) if states else case.module
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            torch.onnx.export(module, examples, case.export, dynamo=True, verbose=False)
        convert_network(network, network.graph(case.module), case.package, fp16=True)
    return {name: load(case) for name, load in _RUNTIMES.items()}


def _block(predict: Predict) -> float:
    """The time of the fastest of several predictions, in seconds."""
    for _ in range(_WARMUPS):
        predict()
    fastest = math.inf
    count, began = 0, time.perf_counter()
    while count < _LEAST_BLOCK or time.perf_counter() - began < _BLOCK_S:
        start = time.perf_counter()
        predict()
        fastest = min(fastest, time.perf_counter() - start)
        count += 1
    return fastest


def _time(network: Network, folder: Path, *, threads: int, rounds: int, runs: int) -> Row:
    """Times the network in rounds; every run loads it again, as the time depends on where its memory lies."""
    blocks: dict[str, list[float]] = {name: [] for name in _RUNTIMES}
    chosen: list[str] = []
    for _ in range(runs):
        contenders = _prepare(network, folder, threads)
        names = list(contenders)
        auto = next(iter(Trial(race({name: contenders[name] for name in _OURS}), {}).medians))
        chosen += [auto] * rounds
        for number in range(rounds):
            # The order changes, because a runtime's time may depend on which one ran before it.
            start = number % len(names)
            order = names[start:] + names[:start]
            for name in order if number % 2 else reversed(order):
                blocks[name].append(_block(contenders[name]))
    own = [blocks[name][number] for number, name in enumerate(chosen)]
    seconds = {name: statistics.median(times) for name, times in blocks.items()}
    best = min(_PEERS, key=seconds.__getitem__)
    ratios = [time_s / other for time_s, other in zip(own, blocks[best], strict=True)]
    better = min(_OURS, key=seconds.__getitem__)
    losses = [time_s / other for time_s, other in zip(own, blocks[better], strict=True)]
    return Row(
        network=network.name,
        seconds=seconds,
        auto=statistics.mode(chosen),
        best=best,
        ratio=statistics.median(ratios),
        ratio_range=(min(ratios), max(ratios)),
        auto_loss=statistics.median(losses),
    )


def _table(rows: Sequence[Row], threads: int) -> str:
    """The results as a Markdown table, in milliseconds per prediction."""
    lines = [
        f"| network, threads: {threads} | {' | '.join(f'{name}, ms' for name in _RUNTIMES)} "
        "| `auto` | `auto` / best other (lowest-highest round) | `auto` / better engine |",
        "|---|" + "--:|" * len(_RUNTIMES) + "---|--:|--:|",
    ]
    for row in rows:
        times = " | ".join(f"{row.seconds[name] * 1e3:.2f}" for name in _RUNTIMES)
        low, high = row.ratio_range
        mark = "" if row.ratio <= _GOAL else f" above {_GOAL}"
        ratio = f"{row.ratio:.3f} ({low:.2f}-{high:.2f}), {row.best}{mark}"
        loss = f"{row.auto_loss:.3f}" + ("" if row.auto_loss <= _AUTO_GOAL else f" above {_AUTO_GOAL}")
        engine = "OpenVINO" if "OpenVINO" in row.auto else "ONNX Runtime"
        lines.append(f"| {row.network} | {times} | {engine} | {ratio} | {loss} |")
    mean = statistics.geometric_mean([row.ratio for row in rows])
    return "\n".join([*lines, "", f"Geometric mean of the ratios: {mean:.3f}"]) + "\n"


#: What `benchmarks.growth` draws stands below.
_GROWTH = """
## How planning grows

![Processor time and memory of an estimate against the operations of a program](growth.svg)

Estimates for one device with all four settings, of programs of 100 to 100,000 operations. From 10,000
operations on, time and memory grow about in proportion. Drawn by `make bench-waits` from `docs/growth.csv`.
"""


def _write(rows: Sequence[Row], threads: int, folder: Path, page: Path | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = _PAGE + _table(rows, threads) + _GROWTH
    for path in filter(None, (folder / "speed.md", page)):
        path.write_text(text, encoding="utf-8")
    result = {"threads": threads, "rows": [msgspec.to_builtins(row) for row in rows]}
    (folder / "speed.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the benchmark and writes its table as Markdown and JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__)
    parser.add_argument("--networks", nargs="+", choices=_NAMES, default=_NAMES, metavar="NAME")
    parser.add_argument("--threads", type=int, default=min(os.cpu_count() or 1, 4))
    parser.add_argument("--rounds", type=int, default=10, help="rounds of a run")
    parser.add_argument("--runs", type=int, default=1, help="runs, each with the networks loaded again")
    parser.add_argument("--keep", type=Path, help="folder of the converted networks, for later runs")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder of speed.md and speed.json")
    parser.add_argument("--page", type=Path, help="page of the documentation to write, too")
    options = parser.parse_args(arguments)
    logging.disable(logging.WARNING)
    rows = []
    for network in _NETWORKS:
        if network.name in options.networks:
            print(f"{network.name} …", flush=True)
            with tempfile.TemporaryDirectory() as scratch:
                folder = (options.keep or Path(scratch)) / network.name
                folder.mkdir(parents=True, exist_ok=True)
                rows.append(
                    _time(network, folder, threads=options.threads, rounds=options.rounds, runs=options.runs)
                )
            # Writes after each network, so that an interruption keeps the finished ones.
            _write(rows, options.threads, options.out, options.page)
    print(f"\n{_table(rows, options.threads)}")


if __name__ == "__main__":
    main()
