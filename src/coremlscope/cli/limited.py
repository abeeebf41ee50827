"""Work on a model from a stranger in a process of its own, which also reads the model and its inputs."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from coremlscope.cli.inputs import read_inputs
from coremlscope.model.subject import Subject

if TYPE_CHECKING:
    from coremlscope.base.processes.child import ChildLimits
    from coremlscope.measure.contract import Progress


#: Processes of Core ML that one setting takes at most.
_RUNS = 3


def limits_of(arguments: argparse.Namespace, settings: Sequence[str] = ()) -> ChildLimits:
    """Returns the limits of `--timeout` and `--memory`.

    Args:
        arguments: The parsed arguments of `add_limits`.
        settings: The settings under which Core ML may run in processes of their own, which have the same
            limits: measured, planned and compared. What they found is kept, so this one waits for them.
    """
    from coremlscope.base.processes.child import ChildLimits

    count = 1 + _RUNS * len(settings)
    time_s = None if arguments.timeout is None else arguments.timeout * count
    silence_s = ChildLimits().silence_s * (2 if settings else 1)
    return ChildLimits(silence_s=silence_s, time_s=time_s, memory_bytes=arguments.memory)


def call_on_model(
    work: Callable[..., Any],
    arguments: argparse.Namespace,
    limits: ChildLimits,
    progress: Progress | None,
    **options: Any,
) -> Any:
    """Calls a function on the model that a verb is given.

    Args:
        work: A function of a module. It takes a `Subject`, the argument `progress`, and the options.
        arguments: The parsed arguments of `add_model`, `add_function`, `add_inputs`, `add_shape`
            and `add_seed`.
        limits: When to give up.
        progress: Called with the phase, the repetitions done, and how many there will be.
        **options: Further arguments, which can be pickled.

    Raises:
        CoremlscopeError: The model or an input cannot be read, the work failed, or a limit was reached.
    """
    from coremlscope.measure.embedded.process import call_isolated

    given = {
        "work": work,
        "subject": Subject(
            arguments.model,
            arguments.function,
            dict(arguments.shape),
            seed=arguments.seed,
            random_weights=getattr(arguments, "random_weights", False),
        ),
        "inputs": arguments.input,
        "resize": arguments.resize,
        "stage": getattr(arguments, "stage", None),
        "options": options,
    }
    # Progress shows that the process is alive, also where it is not displayed.
    return call_isolated(work_on_model, given, limits=limits, progress=progress or _ignore)


def _ignore(phase: str, done: int, total: int) -> None:
    """Ignores progress."""


def work_on_model(
    work: Callable[..., Any],
    subject: Subject,
    inputs: Sequence[tuple[str, str]],
    resize: str,
    stage: str | None,
    options: Mapping[str, Any],
    progress: Progress,
) -> Any:
    """Reads a model and values of inputs, and calls a function; see `call_on_model`.

    Args:
        work: The function.
        subject: The path of the model, and how it is run.
        inputs: Names of inputs, and the file or value of each.
        resize: How images of another size are resized.
        stage: The stage of a pipeline that is meant; None for the whole model.
        options: Further arguments.
        progress: Called with the phase, the repetitions done, and how many there will be.
    """
    from coremlscope import api
    from coremlscope.runtime.execution.wiring import interface_of, stage_of

    model, values = api.read(subject.model), {}
    if stage is not None:
        model = stage_of(model, stage)
    if inputs:
        _, description = interface_of(model, subject.function)
        values = read_inputs(description, inputs, subject.shapes, resize)
    return work(replace(subject, model=model, inputs=values), progress=progress, **options)
