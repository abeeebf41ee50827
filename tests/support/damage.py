"""Random damage to files and folders of models, from a seed."""

from __future__ import annotations

import io
import random
import struct
import zipfile
from collections.abc import Callable

from tests.support.model_files import Files
from tests.support.mutations import mutate
from tests.support.wire_format import varint

__all__ = ["damage"]

_EXTREMES = (0, 1, 2**7, 2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**48, 2**63 - 1, 2**64 - 1)
_TEXTS = (".json", ".mil", ".xml", ".txt", ".net", ".shape", ".jsonl", ".plist")


def _place(data: bytes, generator: random.Random) -> int:
    """A place in the data, often near its start, where headers and lengths are."""
    if generator.random() < 0.3:
        return generator.randrange(min(len(data), 256) + 1)
    return generator.randrange(len(data) + 1)


def _flip(data: bytes, generator: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(generator.randint(1, 8)):
        if changed:
            changed[min(_place(data, generator), len(changed) - 1)] ^= 1 << generator.randrange(8)
    return bytes(changed)


def _truncate(data: bytes, generator: random.Random) -> bytes:
    return data[: _place(data, generator)]


def _change_number(data: bytes, generator: random.Random) -> bytes:
    """Replaces a number of fixed size: a length, an offset, a count."""
    size, format_ = generator.choice([(2, "<H"), (4, "<I"), (8, "<Q")])
    number = generator.choice(_EXTREMES) & ((1 << 8 * size) - 1)
    at = _place(data, generator)
    return data[:at] + struct.pack(format_, number) + data[at + size :]


def _change_varint(data: bytes, generator: random.Random) -> bytes:
    """Replaces a number of protobuf's variable size: a length, a dimension."""
    at = _place(data, generator)
    end = at
    while end < len(data) and data[end] & 0x80:
        end += 1
    return data[:at] + varint(generator.choice(_EXTREMES)) + data[end + 1 :]


def _repeat(data: bytes, generator: random.Random) -> bytes:
    at, length = _place(data, generator), generator.choice([4, 16, 64, 512])
    return data[:at] + data[at : at + length] * generator.choice([2, 3, 50]) + data[at + length :]


def _exchange(data: bytes, generator: random.Random) -> bytes:
    at, other, length = _place(data, generator), _place(data, generator), generator.choice([1, 8, 64])
    return data[:at] + data[other : other + length] + data[at + length :]


_Damage = Callable[[bytes, random.Random], bytes]
_DAMAGES: tuple[_Damage, ...] = (_flip, _truncate, _change_number, _change_varint, _repeat, _exchange)


def _damaged_bytes(name: str, data: bytes, generator: random.Random) -> bytes:
    if name.endswith(_TEXTS) and generator.random() < 0.7:
        return mutate(data, generator)
    for _ in range(generator.choice([1, 1, 1, 2, 4])):
        data = generator.choice(_DAMAGES)(data, generator)
    return data


def _damaged_members(data: bytes, generator: random.Random) -> bytes:
    """An archive in which a member is damaged, doubled, renamed or missing."""
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(target, "w") as archive:
        infos = source.infolist()
        chosen = generator.choice(infos)
        for info in infos:
            content, kind = source.read(info), generator.randrange(4)
            if info is not chosen:
                archive.writestr(info, content)
            elif kind == 0:
                archive.writestr(info, _damaged_bytes(info.filename, content, generator))
            elif kind == 1:
                archive.writestr(info, content)
                archive._didModify = True  # type: ignore[attr-defined]
                archive.NameToInfo.pop(info.filename)
                archive.writestr(info.filename, _damaged_bytes(info.filename, content, generator))
            elif kind == 2:
                archive.writestr(f"../{info.filename}", content)
    return target.getvalue()


def damage(files: Files, generator: random.Random) -> Files:
    """Returns the files with one of them damaged, exchanged for another, or missing."""
    names = list(files)
    name = generator.choice(names)
    if name.endswith(".zip") and generator.random() < 0.5:
        return {**files, name: _damaged_members(files[name], generator)}
    if len(names) > 1 and generator.random() < 0.05:
        return {other: content for other, content in files.items() if other != name}
    if len(names) > 1 and generator.random() < 0.05:
        return {**files, name: files[generator.choice(names)]}
    return {**files, name: _damaged_bytes(name, files[name], generator)}
