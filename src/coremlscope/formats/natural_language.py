"""Parameters of text classifiers and word taggers: what is known of them.

Create ML stores the parameters in a format that is not published. In all files of revision 1 that were seen,
a magic number is followed by 12 bytes and by the offsets and sizes of sections, counted from byte 4: a
property list on the training, weights, labels, the vocabulary (words that end in a zero byte) and an index.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

_MAGIC = b"\xde\xd3\x56\x09"
_SECTIONS = struct.Struct("<10I")
_SECTIONS_OFFSET, _BASE = 16, 4
_PROPERTIES, _VOCABULARY = 0, 3
#: Maximum size of the property list.
_MAX_PROPERTIES_BYTES = 2**16


def read_language_facts(data: bytes) -> dict[str, str]:
    """Reads what is known of the parameters, by label; nothing is known if they have another layout."""
    if data[: len(_MAGIC)] != _MAGIC or len(data) < _SECTIONS_OFFSET + _SECTIONS.size:
        return {}
    numbers = _SECTIONS.unpack_from(data, _SECTIONS_OFFSET)
    # The last section, which is not read, may end behind the data.
    properties = _properties(_section(data, numbers, _PROPERTIES)[:_MAX_PROPERTIES_BYTES])
    vocabulary = _section(data, numbers, _VOCABULARY)
    if properties is None or len(vocabulary) != numbers[2 * _VOCABULARY + 1]:
        return {}
    instances, language = properties.get("NumberOfTrainingInstances"), properties.get("Language")
    embedding = properties.get("EmbeddingType")
    words = sum(bool(word) for word in vocabulary.split(b"\0"))
    facts = {
        "language": language if isinstance(language, str) else "",
        "trained on": f"{instances} texts" if isinstance(instances, int) else "",
        "vocabulary": f"{words} words" if words else "",
        "embedding": embedding if isinstance(embedding, str) else "",
    }
    return {label: value for label, value in facts.items() if value}


def _section(data: bytes, numbers: Sequence[int], index: int) -> bytes:
    start, size = numbers[2 * index : 2 * index + 2]
    return data[_BASE + start : _BASE + start + size]


def _properties(data: bytes) -> dict[str, object] | None:
    import plistlib
    from xml.parsers.expat import ExpatError

    try:
        content = plistlib.loads(data)
    except (
        plistlib.InvalidFileException,
        ExpatError,
        ArithmeticError,
        AttributeError,
        LookupError,
        MemoryError,
        RecursionError,
        TypeError,
        ValueError,
        struct.error,
    ):
        return None
    return content if isinstance(content, dict) else None
