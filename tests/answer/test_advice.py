"""Advice is never empty and never wrong: what is likely is confirmed by the changed model."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from coremlscope import api
from coremlscope.base.errors import CoremlscopeError
from coremlscope.base.figures import Figure
from coremlscope.formats import container
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.model.ir import DType, Model, Program
from coremlscope.planning.advice import RULES
from coremlscope.planning.answer.changes import rank
from coremlscope.planning.rewrites.transforms import parse_transform
from coremlscope.results.answer import Answer, Proposal
from coremlscope.runtime.execution.random_weights import with_random_weights
from coremlscope.studies.variants.coremltools_steps import transform_file
from tests.support.advised_models import MODELS, interface

#: Compression by coremltools: weights may all be zero, or too large for half precision.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

_DEVICES = ("m1", "m4", "iphone-15-pro", "iphone-13")
_CORPUS = Path(__file__).parents[3] / "shared" / "corpus" / "models"
_SUFFIXES = (".mlpackage", ".mlmodel", ".mlmodelc", ".aimodel")
#: How far the gain of the changed model may be from what was said.
_TOLERANCE = 0.2
#: Models of one rule each, where its change can be made.
_BUILT = [(rule.id, MODELS[rule.id][0][0]) for rule in RULES if rule.transform and rule.id in MODELS]


def _corpus() -> Iterator[Path]:
    for path in sorted(_CORPUS.rglob("*")) if _CORPUS.is_dir() else ():
        if path.suffix in _SUFFIXES and not any(one.suffix in _SUFFIXES for one in path.parents):
            yield path


def _check(path: Path, devices: Sequence[str], folder: Path) -> int:
    """Checks the advice on a model, and returns the number of gains that the changed models confirmed."""
    likely: dict[str, list[tuple[Answer, Proposal]]] = defaultdict(list)
    for device in devices:
        answer = api.answer(path, device).answers[0]
        if answer.latency is None:
            continue
        assert answer.changes
        for one in answer.changes:
            assert one.after is None or one.saved_s > 0
            if one.certainty == "likely" and one.after is not None and one.id != "setting":
                assert one.is_planned_again
                found = re.search(r"what-if .* --try (\S+)", one.command)
                assert found is not None, f"{one.id} is likely, but nothing confirms it"
                likely[found[1]].append((answer, one))
    for count, (transform, gains) in enumerate(likely.items()):
        (folder / str(count)).mkdir()
        _confirm(path, transform, gains, folder / str(count))
    return sum(map(len, likely.values()))


def _confirm(path: Path, transform: str, gains: list[tuple[Answer, Proposal]], folder: Path) -> None:
    """Makes the changed model and compares its estimates with the gains that were named."""
    model = container.read(path)
    assert isinstance(model.content, Program)
    source, target = path, folder / f"changed{'.mlmodel' if model.content.is_network else '.mlpackage'}"
    if path.suffix == ".mlpackage":
        # Absent weights take as long as any others; coremltools needs some.
        source = folder / "source.mlpackage"
        write_mlpackage(with_random_weights(model, 0), source)
    transform_file(source, parse_transform(transform), target, shapes={}, samples=[], folder=folder)
    for answer, one in gains:
        changed = api.answer(target, answer.device).answers[0].latency
        assert changed is not None
        assert one.before_s is not None
        assert one.before_s - changed.value == pytest.approx(one.saved_s, rel=_TOLERANCE), (
            f"{one.id} on {answer.device}"
        )


@pytest.mark.parametrize(("rule", "model"), _BUILT, ids=[rule for rule, _ in _BUILT])
def test_what_is_likely_of_a_built_model_is_confirmed_by_the_changed_one(
    rule: str, model: Model, tmp_path: Path
) -> None:
    path = tmp_path / f"{rule}.mlpackage"
    write_mlpackage(model, path)
    _check(path, _DEVICES, tmp_path)


def test_a_gain_that_the_changed_model_has_is_likely(tmp_path: Path) -> None:
    path = tmp_path / "m.mlpackage"
    write_mlpackage(interface(DType.FP32), path)
    assert _check(path, ["iphone-13"], tmp_path) > 0


_SAMPLE = list(itertools.islice(_corpus(), 0, None, 12))


@pytest.mark.parametrize("path", _SAMPLE, ids=lambda path: path.name)
def test_advice_on_a_sample_of_the_corpus(path: Path, tmp_path: Path) -> None:
    _check_on(path, tmp_path, _DEVICES[2:3])


@pytest.mark.long
@pytest.mark.parametrize("path", list(_corpus()), ids=lambda path: path.name)
def test_advice_on_the_corpus(path: Path, tmp_path: Path) -> None:
    _check_on(path, tmp_path, _DEVICES)


def _check_on(path: Path, folder: Path, devices: tuple[str, ...]) -> None:
    try:
        _check(path, devices, folder)
    except CoremlscopeError as error:
        pytest.skip(f"nothing is said of it: {error.message}")


def test_what_was_planned_again_stands_before_a_larger_promise() -> None:
    profile = api.answer(MODELS[_BUILT[0][0]][0][0], "m1")
    shown, time = profile.estimates[0], profile.answers[0].time

    def change(id_: str, saved: float, is_planned_again: bool) -> Proposal:
        before = shown.latency.value
        after = Figure(before * (1 - saved), before * (1 - saved), before * (1 - saved), "estimated")
        return Proposal(
            id=id_,
            text=id_,
            certainty="unclear",
            before_s=before,
            after=after,
            is_planned_again=is_planned_again,
        )

    changes = [change("promised", 0.6, False), change("small", 0.1, True), change("large", 0.3, True)]
    assert [one.id for one in rank(changes, shown, time, has_settings_alone=False)] == [
        "large",
        "small",
        "promised",
    ]
