"""Files with the values of a part, beside its model."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np

from coremlscope.base.errors import OutputError
from coremlscope.base.writing import check_apart, check_file, write_file
from coremlscope.formats.packaging import check_package
from coremlscope.studies.isolation.parts import Cutter, Part, Values

#: The ends of the files of inputs, expected outputs and states.
_SUFFIXES = (".npz", ".expected.npz", ".states.npz")


def check_target(cutter: Cutter, path: Path, source: str, *, overwrite: bool) -> None:
    """Checks in advance that a part and its values can be written.

    Args:
        cutter: What cuts the part out.
        path: The model to write.
        source: The path of the whole model; empty if it is in memory.
        overwrite: Allows replacing files, but not the whole model.

    Raises:
        OutputError: The path has another suffix, a file exists, or nothing can be written there.
    """
    check_apart(path, source)
    if path.suffix == ".mlmodel" == cutter.suffix:
        check_file(path)
    else:
        check_package(path, overwrite=overwrite)
    existing = [file for file in (path, *map(path.with_suffix, _SUFFIXES)) if file.exists()]
    if existing and not overwrite:
        raise OutputError(
            f"{existing[0]} already exists",
            "choose another name, or overwrite it: --overwrite, or overwrite=True in Python",
        )


def write_part(cutter: Cutter, part: Part, path: Path, *, overwrite: bool = False) -> tuple[Path, ...]:
    """Writes a part, and its values beside it.

    Returns:
        The files with values: those of the inputs, of the expected outputs, and of states if there are any.

    Raises:
        OutputError: A file cannot be written, or the part's path exists.
    """
    cutter.write(part, path, overwrite=overwrite)
    written = []
    for suffix, values in zip(_SUFFIXES, (part.inputs, part.expected, part.states), strict=True):
        if values:
            written.append(path.with_suffix(suffix))
            write_file(written[-1], _archive(values))
    return tuple(written)


def _archive(values: Values) -> bytes:
    """Returns arrays in NumPy's format `.npz`. Unlike `numpy.savez` it accepts any name, such as `file`."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, array in values.items():
            file = io.BytesIO()
            np.save(file, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), file.getbuffer())
    return content.getvalue()
