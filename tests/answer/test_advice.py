"""Advice is never empty and never wrong: what is likely is confirmed by the changed model."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from coremlscope.base.errors import CoremlscopeError
from coremlscope.formats import container
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.model.ir import DType, Model, Program
from coremlscope.planning.advice import RULES
from coremlscope.results.answer import Answer, Proposal
from coremlscope.runtime.execution.random_weights import with_random_weights
from coremlscope.studies.answer.answer import answer_models
from coremlscope.studies.variants.coremltools_steps import transform_file
from coremlscope.studies.variants.transforms import parse_transform
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


def _check(path: Path, device: str, folder: Path) -> int:
    """Checks the advice on a model, and returns the number of gains that the changed model confirmed."""
    answer = answer_models(path, devices=device)[0]
    if not answer.speeds:
        return 0
    assert answer.proposals or answer.nothing
    count = 0
    for one in answer.proposals:
        if one.certainty == "no gain":
            assert one.saved_bytes > 0
            continue
        assert one.after is not None
        assert one.after.value < one.before_s
        if one.certainty == "likely":
            assert one.is_checked
            count += _confirm(path, answer, one, folder / str(count))
    return count


def _confirm(path: Path, answer: Answer, one: Proposal, folder: Path) -> int:
    """Makes the changed model and compares its estimate with the gain that was named; 1 if it could."""
    found = re.search(r"what-if MODEL --try (\S+)", one.command)
    if found is None:
        assert one.id == "setting", f"{one.id} is likely, but nothing confirms it"
        return 0
    assert one.after is not None
    model = container.read(path)
    assert isinstance(model.content, Program)
    folder.mkdir()
    source, target = path, folder / f"changed{'.mlmodel' if model.content.is_network else '.mlpackage'}"
    if path.suffix == ".mlpackage":
        # Absent weights take as long as any others; coremltools needs some.
        source = folder / "source.mlpackage"
        write_mlpackage(with_random_weights(model, 0), source)
    transform_file(source, parse_transform(found[1]), target, shapes={}, samples=[], folder=folder)
    changed = answer_models(target, devices=answer.device)[0].speeds[0].latency.value
    assert one.before_s - changed == pytest.approx(one.before_s - one.after.value, rel=_TOLERANCE)
    return 1


@pytest.mark.parametrize(("rule", "model"), _BUILT, ids=[rule for rule, _ in _BUILT])
def test_what_is_likely_of_a_built_model_is_confirmed_by_the_changed_one(
    rule: str, model: Model, tmp_path: Path
) -> None:
    path = tmp_path / f"{rule}.mlpackage"
    write_mlpackage(model, path)
    for device in _DEVICES:
        (tmp_path / device).mkdir()
        _check(path, device, tmp_path / device)


def test_a_gain_that_the_changed_model_has_is_likely(tmp_path: Path) -> None:
    path = tmp_path / "m.mlpackage"
    write_mlpackage(interface(DType.FP32), path)
    assert _check(path, "iphone-13", tmp_path) > 0


_SAMPLE = list(itertools.islice(_corpus(), 0, None, 12))


@pytest.mark.parametrize("path", _SAMPLE, ids=lambda path: path.name)
def test_advice_on_a_sample_of_the_corpus(path: Path, tmp_path: Path) -> None:
    _check_on(path, tmp_path, _DEVICES[2:3])


@pytest.mark.long
@pytest.mark.parametrize("path", list(_corpus()), ids=lambda path: path.name)
def test_advice_on_the_corpus(path: Path, tmp_path: Path) -> None:
    _check_on(path, tmp_path, _DEVICES)


def _check_on(path: Path, folder: Path, devices: tuple[str, ...]) -> None:
    for device in devices:
        (folder / device).mkdir()
        try:
            _check(path, device, folder / device)
        except CoremlscopeError as error:
            pytest.skip(f"nothing is said of it: {error.message}")
