"""PyTorch as a reference: exported programs (`.pt2`), modules, and TorchScript."""

from __future__ import annotations

import functools
import inspect
import itertools
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec.structs
import numpy as np

from coremlscope.base.errors import EngineError, MissingDependencyError, UsageError, how_to_install
from coremlscope.model.ir import Array
from coremlscope.verification.intermediates import Intermediate, Parameter, Run
from coremlscope.verification.pairing import plain_name
from coremlscope.verification.references.contract import Assigned, Wanted, match_inputs


@functools.cache
def _torch() -> Any:
    """Imports PyTorch so that its threads sleep while they wait: on a busy machine, those that spin take ten
    times the time of the network."""
    before = os.environ.get("OMP_WAIT_POLICY")
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        import torch
    except ImportError:
        raise MissingDependencyError(
            "a reference in PyTorch needs torch, which is not installed", how_to_install("torch")
        ) from None
    finally:
        if before is None:
            del os.environ["OMP_WAIT_POLICY"]
    return torch


def is_module(source: object) -> bool:
    """Returns whether an object is a module of PyTorch, without importing PyTorch."""
    return any(
        base.__module__.startswith("torch.nn.modules.") and base.__name__ == "Module"
        for base in type(source).__mro__
    )


class ExportedReference:
    """Runs a program that `torch.export` made, and records the result of every call in its graph.

    Args:
        source: The path of a `.pt2` file, or the program.

    Raises:
        UsageError: The file cannot be read.
        MissingDependencyError: torch is not installed.
    """

    def __init__(self, source: Path | Any) -> None:
        torch = _torch()
        self.label = source.name if isinstance(source, Path) else type(source).__name__
        if not isinstance(source, Path):
            self._program = source
            return
        if not source.is_file():
            raise UsageError(f"{source} does not exist")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._program = torch.export.load(str(source))
        except Exception as error:  # torch raises many types for damaged files
            raise UsageError(
                f"{source} is not a program of torch.export: {_reason(error)}",
                "save it with torch.export.save",
            ) from None

    @functools.cached_property
    def _module(self) -> Any:
        return self._program.module()

    def _places(self) -> list[Any]:
        return [node for node in self._module.graph.nodes if node.op == "placeholder"]

    @property
    def inputs(self) -> list[str]:
        """The names of the inputs, in order."""
        return [node.target for node in self._places()]

    def run(self, inputs: Mapping[str, Array], before: Sequence[Mapping[str, Array]] = ()) -> Run:
        """Runs the program; see `Reference.run`."""
        torch, module = _torch(), self._module
        wanted: list[Wanted] = [(node.target, *_of_tensor(node.meta.get("val"))) for node in self._places()]
        earlier = [_to_tensors(torch, match_inputs(one, wanted).arrays) for one in before]
        given = match_inputs(inputs, wanted)
        recorder = _recorder(torch, module)
        initial = {name: _array(buffer.clone()) for name, buffer in module.named_buffers()}
        try:
            with torch.no_grad(), _kept_buffers(module), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for tensors in earlier:
                    torch.fx.Interpreter(module).run(*tensors.values())
                recorder.run(*_to_tensors(torch, given.arrays).values())
        except Exception as error:  # the author's code may raise anything
            raise EngineError(f"PyTorch cannot run {self.label}: {_reason(error)}") from error
        run = _run_of(module, recorder, f"PyTorch, {self.label}")
        contents = {content: initial[name] for name, content in run.outputs.items() if name in initial}
        return msgspec.structs.replace(run, by_order=given.by_order, initial=contents)


class ModuleReference:
    """Runs a module: exported, if `torch.export` can, to record its intermediate values; else as it is.

    Args:
        module: The module.
    """

    def __init__(self, module: Any) -> None:
        self.label = type(module).__name__
        self._module = module
        #: The exported module by the shapes of its arguments; None where it cannot be exported.
        self._exported: dict[tuple[Any, ...], ExportedReference | None] = {}

    @property
    def is_training(self) -> bool:
        """Whether the module was given in training mode."""
        return bool(self._module.training)

    def run(self, inputs: Mapping[str, Array], before: Sequence[Mapping[str, Array]] = ()) -> Run:
        """Runs the module in evaluation mode; see `Reference.run`.

        The parameters of `forward` take the inputs of their names, and the others in order. The mode and the
        buffers of the module stay as they are.
        """
        modes = [(part, part.training) for part in self._module.modules()]
        with _kept_buffers(self._module):
            try:
                self._module.eval()
                assigned = [self._assigned(one) for one in (*before, inputs)]
                found = self._run([one.arrays for one in assigned])
            finally:
                for part, mode in modes:
                    part.training = mode
        return msgspec.structs.replace(found, by_order=assigned[-1].by_order)

    def _assigned(self, inputs: Mapping[str, Array]) -> Assigned:
        """Returns the arguments of `forward` by the names of its parameters, in their order; by those of the
        inputs if it does not name them."""
        own = {name: _own_type(array) for name, array in inputs.items()}
        parameters = _parameters_of(self._module.forward)
        if not parameters:
            return Assigned(own, {})
        plain = {plain_name(name) for name in own}
        named = [name for name in parameters if name in own or plain_name(name) in plain]
        others = [name for name in parameters if name not in named]
        needed = sum(parameters[name] for name in others)
        taken = {*named, *others[: max(needed, len(own) - len(named))]}
        return match_inputs(own, [(name, None, None) for name in parameters if name in taken])

    def _arguments(self, torch: Any, arrays: Mapping[str, Array]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns tensors for `forward`, by position up to the first parameter that is left out."""
        tensors = _to_tensors(torch, arrays)
        parameters = _parameters_of(self._module.forward) or arrays
        first = list(itertools.takewhile(tensors.__contains__, parameters))
        return tuple(tensors.pop(name) for name in first), tensors

    def _run(self, calls: Sequence[Mapping[str, Array]]) -> Run:
        """Runs the module on the arguments of several calls, and records the last one."""
        torch, last = _torch(), calls[-1]
        form = tuple((name, one.shape, one.dtype) for name, one in last.items())
        if form not in self._exported:
            self._exported[form] = self._export(torch, last)
        exported = self._exported[form]
        if exported is None:
            return self._call(torch, calls)
        *before, last = [dict(zip(exported.inputs, arrays.values(), strict=True)) for arrays in calls]
        return exported.run(last, before)

    def _export(self, torch: Any, arguments: Mapping[str, Array]) -> ExportedReference | None:
        """Exports the module for arguments of some shapes; returns None if that is not possible."""
        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exported = ExportedReference(
                    torch.export.export(self._module, *self._arguments(torch, arguments))
                )
        except Exception:  # modules that depend on data cannot be exported, in many ways
            return None
        exported.label = self.label
        return exported

    def _call(self, torch: Any, calls: Sequence[Mapping[str, Array]]) -> Run:
        """Runs the module as it is, of which only outputs and changed buffers are known."""
        try:
            with torch.no_grad():
                for inputs in calls:
                    versions = {name: buffer._version for name, buffer in self._module.named_buffers()}
                    positional, named = self._arguments(torch, inputs)
                    returned = self._module(*positional, **named)
                written = {
                    name: _array(buffer.clone())
                    for name, buffer in self._module.named_buffers()
                    if buffer._version != versions.get(name)
                }
        except Exception as error:  # the author's code may raise anything
            raise EngineError(f"PyTorch cannot run {self.label}: {_reason(error)}") from error
        outputs = {f"output_{i}": _array(one) for i, one in enumerate(_tensors(torch, returned))}
        return Run.of_outputs(f"PyTorch, {self.label}", calls[-1], {**outputs, **written}, written)


def _reason(error: Exception) -> str:
    """Returns the first line of a message, or the type of an error without one."""
    return next(iter(str(error).splitlines()), type(error).__name__)


def _parameters_of(forward: Any) -> dict[str, bool]:
    """Returns the names of the parameters of a method, and whether they are required; empty if it takes any
    number of arguments, or does not say."""
    try:
        parameters = inspect.signature(forward).parameters.values()
    except (TypeError, ValueError):
        return {}
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return {}
    return {one.name: one.default is one.empty for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD}


def _to_tensors(torch: Any, arrays: Mapping[str, Array]) -> dict[str, Any]:
    return {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}


@contextmanager
def _kept_buffers(module: Any) -> Iterator[None]:
    """Restores the buffers of a module, which a call may change, when the context ends."""
    kept = [(buffer, buffer.clone()) for buffer in module.buffers()]
    try:
        yield
    finally:
        for buffer, before in kept:
            buffer.copy_(before)


def _recorder(torch: Any, module: Any) -> Any:
    """Returns an interpreter of a graph that keeps the result of every node, and the buffers it changes."""

    class ModuleRecorder(torch.fx.Interpreter):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(module)
            self.results: dict[str, Any] = {}
            self.written: dict[str, dict[str, Any]] = {}
            self._buffers = dict(module.named_buffers())
            self._versions = {name: buffer._version for name, buffer in self._buffers.items()}

        def run_node(self, node: Any) -> Any:
            result = super().run_node(node)
            self.results[node.name] = result.clone() if isinstance(result, torch.Tensor) else result
            for name, buffer in self._buffers.items() if node.op.startswith("call") else ():
                if buffer._version != self._versions[name]:
                    self._versions[name] = buffer._version
                    self.written.setdefault(node.name, {})[name] = buffer.clone()
            return result

    return ModuleRecorder()


def _run_of(module: Any, recorder: Any, label: str) -> Run:
    torch = _torch()
    results = recorder.results
    values: dict[str, Intermediate] = {}
    outputs: dict[str, str] = {}
    contents: dict[str, str] = {}
    for node in module.graph.nodes:
        if node.op == "output":
            flat = [n for n in _nodes(node.args) if n.name in values]
            outputs = {n.name: n.name for n in flat}
        elif node.op != "get_attr" and isinstance(results.get(node.name), torch.Tensor):
            reads = tuple(dict.fromkeys(_above(node, values, contents)))
            value = Intermediate(
                name=node.name,
                array=_array(results[node.name]),
                op="" if node.op == "placeholder" else node.name,
                type="" if node.op == "placeholder" else _type(node.target),
                inputs=reads,
                parameters=tuple(_parameters(node, results)),
            )
            values[node.name] = value
            for name, tensor in recorder.written.get(node.name, {}).items():
                before = (contents[name],) if name in contents and contents[name] not in reads else ()
                content = f"{name} after {node.name}"
                inputs = (*reads, *before)
                values[content] = msgspec.structs.replace(
                    value, name=content, array=_array(tensor), inputs=inputs
                )
                contents[name] = content
    states = {name: content for name, content in contents.items() if name not in outputs}
    return Run(label=label, values=values, outputs={**outputs, **states}, states=frozenset(states))


def _above(node: Any, values: Mapping[str, Intermediate], contents: Mapping[str, str]) -> Iterator[str]:
    """Yields the recorded values that a node reads, also through nodes that return tuples.

    Args:
        node: The node.
        values: The values recorded so far.
        contents: The values that hold the content of buffers, where the graph has changed them.
    """
    for given in node.all_input_nodes:
        if given.name in values:
            yield given.name
        elif given.op == "get_attr":
            if given.target in contents:
                yield contents[given.target]
        else:
            yield from _above(given, values, contents)


def _nodes(arguments: Any) -> Iterator[Any]:
    for argument in arguments:
        if isinstance(argument, (list, tuple)):
            yield from _nodes(argument)
        elif hasattr(argument, "name"):
            yield argument


def _parameters(node: Any, results: Mapping[str, Any]) -> Iterator[Parameter]:
    """Yields the weights and the numbers that a node reads."""
    for given in node.all_input_nodes:
        tensor = results.get(given.name)
        if given.op == "get_attr" and tensor is not None and hasattr(tensor, "numel"):
            yield Parameter(str(given.target), tensor.numel(), partial(_array, tensor))
        elif isinstance(tensor, tuple) and node.args[1:] == (0,):
            yield from _parameters(given, results)  # The first result of a call with several.
    for number in node.args:
        is_number = (
            isinstance(number, int) and not isinstance(number, bool) and _type(node.target) in _ARITHMETIC
        )
        if isinstance(number, float) or is_number:
            yield Parameter("number", 1, partial(np.array, number, np.float64))


#: Calls whose integers are numbers, not axes.
_ARITHMETIC = frozenset(
    {"__rsub__", "__rtruediv__", "add", "clamp", "div", "floor_divide", "fmod", "mul", "pow", "rsub", "sub"}
) | {"remainder"}


def _type(target: Any) -> str:
    return str(getattr(target, "__name__", target)).removeprefix("aten.").split(".")[0]


def _of_tensor(value: Any) -> tuple[tuple[int | None, ...] | None, np.dtype | None]:
    if value is None or not hasattr(value, "shape"):
        return None, None
    shape = tuple(int(size) if isinstance(size, int) else None for size in value.shape)
    name = str(value.dtype).removeprefix("torch.")
    return shape, np.dtype(name) if name in np.sctypeDict else None


def _tensors(torch: Any, returned: Any) -> list[Any]:
    if isinstance(returned, torch.Tensor):
        return [returned]
    parts = returned.values() if isinstance(returned, Mapping) else returned
    return [tensor for part in parts for tensor in _tensors(torch, part)]


def _array(tensor: Any) -> Array:
    plain = tensor.detach().cpu()
    if "bfloat16" in str(plain.dtype):
        plain = plain.float()
    return np.asarray(plain.numpy())


def _own_type(array: Array) -> Array:
    """Integers of Core ML are int32; PyTorch indexes by int64."""
    return array.astype(np.int64) if array.dtype.kind in "iu" else array
