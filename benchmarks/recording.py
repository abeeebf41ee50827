"""Cost of recording per prediction: `make bench-recording`.

One process predicts in short blocks, with and without recording in random order, so that a slowdown of the
machine affects both. The process is pinned to one processor. Before every prediction it reads memory that
does not fit in the processor's caches, as a program does between predictions; without that, recording finds
its own data in the caches and costs a fraction. The first predictions of a block are left out.

Two clocks are read: wall time, and the processor time of the thread, which other programs disturb less. The
extra time is the difference of the medians, and of the 99th percentiles, with an interval of 95 % from
resampled blocks.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import coremlscope

__all__ = ["main", "measure", "summarise"]

#: The interpreter adapts to functions that were just replaced during the first calls.
_BLOCK, _LEFT_OUT = 40, 24
_RESAMPLES = 500
_APIS = ("coremltools", "coremlscope", "onnxruntime")

Times = npt.NDArray[np.float64]


def measure(predict: Callable[[], Any], blocks: int, work_bytes: int) -> dict[bool, Times]:
    """Times predictions with and without recording.

    Args:
        predict: Predicts once.
        blocks: The number of blocks of each kind.
        work_bytes: Bytes that are read before each prediction.

    Returns:
        For recorded (True) and other predictions: seconds of wall time and of processor time, of shape
        `[blocks, predictions of a block, 2]`.
    """
    memory = np.ones(max(work_bytes // 8, 1))
    order = random.Random(0)
    taken: dict[bool, list[list[tuple[float, float]]]] = {False: [], True: []}
    for _ in range(blocks):
        for recorded in order.sample((False, True), 2):
            recording = coremlscope.record(children=False) if recorded else None
            if recording is not None:
                recording.start()
            taken[recorded].append(_block(predict, memory))
            if recording is not None:
                recording.stop()
    return {recorded: np.array(times) for recorded, times in taken.items()}


def _block(predict: Callable[[], Any], memory: Times) -> list[tuple[float, float]]:
    times = []
    for index in range(_LEFT_OUT + _BLOCK):
        memory.sum()
        wall, processor = time.perf_counter(), time.thread_time()
        predict()
        processor, wall = time.thread_time() - processor, time.perf_counter() - wall
        if index >= _LEFT_OUT:
            times.append((wall, processor))
    return times


def summarise(taken: dict[bool, Times], clock: int, percentile: float) -> tuple[float, float, float, float]:
    """Compares a percentile of recorded and other predictions.

    Args:
        taken: As `measure` returns them.
        clock: 0 for wall time, 1 for processor time.
        percentile: 50 for the median.

    Returns:
        The percentile without recording, the extra time of recorded predictions, and the ends of its
        interval of 95 %, in seconds.
    """
    plain, recorded = (taken[kind][..., clock] for kind in (False, True))
    base = float(np.percentile(plain, percentile))
    extra = float(np.percentile(recorded, percentile)) - base
    draw = np.random.default_rng(0)
    blocks = len(plain)
    resampled = [
        np.percentile(recorded[draw.integers(blocks, size=blocks)], percentile)
        - np.percentile(plain[draw.integers(blocks, size=blocks)], percentile)
        for _ in range(_RESAMPLES)
    ]
    low, high = np.percentile(resampled, (2.5, 97.5))
    return base, extra, float(low), float(high)


def _save_network(folder: Path, layers: int) -> Path:
    """Saves a network of convolutions with float32 inputs that computes in fp16."""
    import coremltools as ct
    from coremltools.converters.mil import Builder as mb

    weights = np.full((32, 32, 3, 3), 0.01, np.float32)

    def network(x: Any) -> Any:
        for _ in range(layers):
            x = mb.relu(x=mb.conv(x=x, weight=weights, pad_type="same"))
        return mb.identity(x=x, name="y")

    specs = [mb.TensorSpec((1, 32, 32, 32))]
    program = mb.program(input_specs=specs, opset_version=ct.target.iOS16)(network)
    path = folder / f"network{layers}.mlpackage"
    ct.convert(
        program,
        convert_to="mlprogram",
        minimum_deployment_target=ct.target.iOS16,
        skip_model_load=True,
    ).save(str(path))
    return path


def _predictor(api: str, path: Path) -> Callable[[], Any]:
    values = {"x": np.random.default_rng(0).random((1, 32, 32, 32), np.float32)}
    if api == "coremlscope":
        model = coremlscope.open(path)
        return lambda: model.predict(values)
    if api == "coremltools":
        import coremltools as ct

        coremlscope.install()
        loaded = ct.models.MLModel(str(path))
        return lambda: loaded.predict(values)
    import onnxruntime

    coremlscope.export(path, path.with_suffix(".onnx"))
    session = onnxruntime.InferenceSession(str(path.with_suffix(".onnx")))
    return lambda: session.run(None, values)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints what recording costs a prediction through each API."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--blocks", type=int, default=40, help="blocks of each kind (default: 40)")
    parser.add_argument("--layers", type=int, default=14, help="layers of the network (default: 14)")
    parser.add_argument(
        "--work", type=int, default=16, help="MiB that are read before a prediction (default: 16)"
    )
    parser.add_argument("apis", nargs="*", default=_APIS, help="(default: all)")
    options = parser.parse_args(arguments)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    print(f"{'api':12} {'clock':9} {'':6} {'without':>10} {'extra':>10} {'95 % interval':>20} {'share':>8}")
    with tempfile.TemporaryDirectory() as folder:
        path = _save_network(Path(folder), options.layers)
        for api in options.apis:
            predict = _predictor(api, path)
            for _ in range(20):
                predict()
            taken = measure(predict, options.blocks, options.work << 20)
            for clock, name in enumerate(("wall", "processor")):
                for percentile in (50, 99):
                    base, extra, low, high = summarise(taken, clock, percentile)
                    interval = f"{low * 1e6:.0f} to {high * 1e6:.0f} µs"
                    print(
                        f"{api:12} {name:9} p{percentile:<5} {base * 1e3:7.3f} ms {extra * 1e6:7.1f} µs"
                        f" {interval:>20} {100 * extra / base:6.2f} %",
                        flush=True,
                    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
