"""NumPy, which is imported when it is first used: it takes as long as the rest of a short command."""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["np"]

if TYPE_CHECKING:
    import numpy as np
else:

    class _NumPy:
        def __getattr__(self, name: str) -> object:
            import numpy

            found = getattr(numpy, name)
            setattr(self, name, found)
            return found

    np = _NumPy()
