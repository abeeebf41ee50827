"""The form of answers in JSON, which that of plans and of estimates contains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coremlscope.reports.json import render_values
from coremlscope.results.encoding import plain
from coremlscope.results.profile import Profile

#: Name and version of the form.
_SCHEMA = "coremlscope.answers/1"


def render_answers_json(profiles: Sequence[Profile], **more: Any) -> str:
    """Renders the answers of models as JSON text, with paths as they were given: commands contain them.

    Args:
        profiles: The models with their answers.
        **more: Other keys, before the answers.
    """
    answers = [plain(one) for profile in profiles for one in profile.answers]
    return render_values({"schema": _SCHEMA, **more, "answers": answers}, keeps_folders=True)
