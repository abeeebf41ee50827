"""Random damage to texts and folders, from a seed."""

from __future__ import annotations

import random
import re

__all__ = ["mutate"]

_TOKEN = re.compile(rb'"[^"\n]*"|\w+|\s+|.')
_INSERTED = (
    *(bytes([character]) for character in b'()[]{}<>,;="\\-?.@#0\n\x00\xff\x80'),
    b"->",
    b"tensor<fp16, [1, 99999999999, 99999999999]>",
    b"tensor<fp32, [4611686018427387904, 4]>([1])",
    b"tensor<int32, [" + b"2, " * 40 + b"2]>",
    b"list<" * 70,
    b"tuple<" * 200,
    b"[" * 200,
    b"((" * 100,
    b'"\\x',
    b'BLOBFILE(path = string("@model_path/../x"), offset = uint64(64))',
    b"uint64(-1)",
    b"int8(300)",
    b"fp16(0x1p+400)",
    b"99999999999999999999999999999999999999999999",
    b"nan",
    b"\xed\xa0\x80",
    b"func main<ios18>() {",
    b"\xe2\x80\xae",
    b"while_loop(loop_vars = (x))",
)


def mutate(data: bytes, generator: random.Random) -> bytes:
    """Changes one to four places: removes, repeats, exchanges or inserts a piece, or truncates the text."""
    for _ in range(generator.randint(1, 4)):
        at, length = generator.randrange(len(data) + 1), generator.choice([1, 1, 2, 8, 64, 512])
        piece = data[at : at + length]
        match generator.randrange(8):
            case 0:
                data = data[:at] + data[at + length :]
            case 1:
                data = data[:at] + piece + piece + data[at + length :]
            case 2:
                data = data[:at] + generator.choice(_INSERTED) + data[at:]
            case 3:
                data = data[:at] + generator.choice(_INSERTED) + data[at + length :]
            case 4:
                data = data[:at] + generator.randbytes(min(length, 8)) + data[at + length :]
            case 5:
                other = generator.randrange(len(data) + 1)
                data = data[:at] + data[other : other + length] + data[at + length :]
            case 6:
                data = _without_token(data, at)
            case _:
                data = data[:at] if generator.random() < 0.2 else data[:at] + data[at + 1 :]
    return data


def _without_token(data: bytes, at: int) -> bytes:
    found = _TOKEN.match(data, at)
    return data if found is None else data[:at] + data[found.end() :]
