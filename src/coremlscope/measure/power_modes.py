"""Waits for the user to switch a Mac's power mode: programs need root to switch it."""

from __future__ import annotations

import time
from collections.abc import Callable

from coremlscope.base.errors import EngineError, UsageError
from coremlscope.runtime.engines.host import power_mode

_POLL_S = 1.0


def wait_for_other_mode(
    mode: str,
    *,
    patience_s: float = 900.0,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> str:
    """Waits until the power mode differs from one that was measured.

    Args:
        mode: That power mode.
        patience_s: Seconds after which to give up.
        clock: Returns seconds since an arbitrary time.
        sleep: Waits for some seconds.

    Returns:
        The new power mode.

    Raises:
        UsageError: This machine does not report a power mode.
        EngineError: The power mode was not switched in time.
    """
    if not mode:
        raise UsageError(
            "this machine does not report a power mode", "measure in one mode only: others need a Mac"
        )
    until = clock() + patience_s
    while (current := power_mode()) in (mode, ""):
        if clock() > until:
            raise EngineError(
                f"the power mode was not switched from {mode} within {patience_s / 60:.0f} minutes",
                "switch it in System Settings > Battery, and run it again",
            )
        sleep(_POLL_S)
    return current
