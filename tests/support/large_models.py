"""Specifications of very large models, written piece by piece."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.support.wire_format import field, varint

__all__ = ["converted_program", "deep_network", "plain_program", "wide_program"]

#: Field numbers of `Model`.
_VERSION, _DESCRIPTION, _NETWORK, _PROGRAM = 1, 2, 500, 502
_FP32, _STRING = 11, 2
_FLOAT_ARRAY = 65568


def plain_program(operations: int) -> bytes:
    """A chain of activations: operations of one argument, and names of values alone."""
    return _program(operations, ("x",), _activations(operations))


def converted_program(operations: int) -> bytes:
    """A program as converters write it: every second operation is a constant, and each has a name."""
    return _program(operations, ("x",), _additions(operations))


def wide_program(inputs: int) -> bytes:
    """A program of one operation with many inputs."""
    names = [f"input_{index}" for index in range(inputs)]
    last = _operation("relu", f"v{1}", x=names[-1])
    return _program(1, names, [last])


def deep_network(layers: int) -> bytes:
    """A neural network: a chain of activations."""
    parts = []
    for index in range(layers):
        source, result = (f"v{index}" if index else "x").encode(), f"v{index + 1}".encode()
        parts.append(
            field(1, field(1, result) + field(2, source) + field(3, result) + field(130, field(10, b"")))
        )
    parts.append(_number(5, 1))  # arrays keep their shape
    return _model(("x",), f"v{layers}", field(_NETWORK, b"".join(parts)), 4)


def _program(operations: int, inputs: Iterable[str], listed: Iterable[bytes]) -> bytes:
    inputs, output = tuple(inputs), f"v{operations}"
    block = field(2, output.encode()) + b"".join(field(3, operation) for operation in listed)
    function = (
        b"".join(field(1, _value(name)) for name in inputs)
        + field(2, b"CoreML5")
        + field(3, field(1, b"CoreML5") + field(2, block))
    )
    program = _number(1, 1) + field(2, field(1, b"main") + field(2, function))
    return _model(inputs, output, field(_PROGRAM, program), 6)


def _model(inputs: Iterable[str], output: str, content: bytes, version: int) -> bytes:
    described = b"".join(field(1, _feature(name)) for name in inputs) + field(10, _feature(output))
    return _number(_VERSION, version) + field(_DESCRIPTION, described) + content


def _activations(operations: int) -> Iterator[bytes]:
    for index in range(operations):
        yield _operation("relu", f"v{index + 1}", x=f"v{index}" if index else "x")


def _additions(operations: int) -> Iterator[bytes]:
    for index in range(1, operations + 1):
        name = f"v{index}"
        if index % 2 and index < operations:
            content = field(2, _type(_FP32, 1)) + field(3, field(1, field(1, field(1, b"\0\0\x80\x3f"))))
            yield _operation("const", name) + field(5, field(1, b"val") + field(2, content)) + _name(name)
        else:
            yield _operation("add", name, x=f"v{index - 2}" if index > 2 else "x", y=f"v{index - 1}") + _name(
                name
            )


def _name(name: str) -> bytes:
    text = field(2, _type(_STRING)) + field(3, field(1, field(4, field(1, name.encode()))))
    return field(5, field(1, b"name") + field(2, text))


def _operation(kind: str, result: str, **arguments: str) -> bytes:
    given = (
        field(2, field(1, key.encode()) + field(2, field(1, field(1, name.encode()))))
        for key, name in arguments.items()
    )
    return field(1, kind.encode()) + b"".join(given) + field(3, _value(result))


def _value(name: str) -> bytes:
    return field(1, name.encode()) + field(2, _type(_FP32, 4))


def _type(dtype: int, *sizes: int) -> bytes:
    dimensions = b"".join(field(3, field(1, _number(1, size))) for size in sizes)
    return field(1, _number(1, dtype) + (_number(2, len(sizes)) if sizes else b"") + dimensions)


def _feature(name: str) -> bytes:
    array = field(1, b"\4") + _number(2, _FLOAT_ARRAY)
    return field(1, name.encode()) + field(3, field(5, array))


def _number(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)
