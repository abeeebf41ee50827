"""The form of answers in JSON, which that of plans and of estimates contains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from coremlscope.reports.json import render_values
from coremlscope.results.encoding import plain

if TYPE_CHECKING:
    from coremlscope.describe.comparison.profiles import Comparison
    from coremlscope.results.profile import Profile

#: Name and version of the form.
_SCHEMA = "coremlscope.answers/1"


def render_answers_json(
    profiles: Sequence[Profile], comparison: Comparison | None = None, **more: Any
) -> str:
    """Renders the answers of models as JSON text, with paths as they were given: commands contain them.

    Args:
        profiles: The models with their answers.
        comparison: What these say of several models next to each other.
        **more: Other keys, before the answers.
    """
    answers = [plain(one) for profile in profiles for one in profile.answers]
    pairs = (
        [
            {
                "model": comparison.subjects[one.other].path,
                "answer": one.answer,
                "estimated": plain(one.estimated),
            }
            for one in comparison.differences
        ]
        if comparison is not None
        else []
    )
    values = {"differences": pairs} if pairs else {}
    return render_values({"schema": _SCHEMA, **more, **values, "answers": answers}, keeps_folders=True)
