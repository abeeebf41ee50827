"""A plugin of pytest: the fixture `coremlscope_check` checks a model against limits.

pytest loads it in every run, so that it imports nothing of the package until a test uses the fixture.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from coremlscope.results.gate import GateReport


class CheckFixture(Protocol):
    """The value of the fixture."""

    def __call__(self, *sources: str | os.PathLike[str], strict: bool = False, **limits: Any) -> GateReport:
        """Checks models, and fails the test if a limit is not kept; see `coremlscope.check`."""
        ...


@pytest.fixture
def coremlscope_check() -> CheckFixture:
    """Checks models against limits: `coremlscope_check("m.mlpackage", max_latency={"iphone-13": "33ms"})`.

    The test fails if a limit is not kept or a model cannot be read. Without limits those of the nearest
    `pyproject.toml` apply; without models, all that it lists are checked, with the given limits in place of
    theirs.
    """
    return _check


def _check(*sources: str | os.PathLike[str], strict: bool = False, **limits: Any) -> GateReport:
    from coremlscope.base.errors import CoremlscopeError
    from coremlscope.reports.gate import gate_document
    from coremlscope.reports.terminal.writer import write_terminal
    from coremlscope.studies.gate.run import check, check_project

    __tracebackhide__ = True
    has_limits = bool(sources) and bool(limits)
    try:
        report = (
            check(*sources, strict=strict, **limits)
            if has_limits
            else check_project(models=sources, strict=strict, **limits)
        )
    except CoremlscopeError as error:
        failure = f"{error.message}\n{error.hint}"
    else:
        failure = write_terminal(gate_document(report)) if report.exit_code else ""
    if failure:  # Outside of the handler: pytest would show the error as well.
        pytest.fail(failure, pytrace=False)
    return report
