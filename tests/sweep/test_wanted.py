"""Lists of models, and the addresses of results."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec.structs
import pytest

from coremlscope.base.errors import NotAModelError, UsageError
from coremlscope.studies.sweep.expansion import Expander, find_sources
from coremlscope.studies.sweep.jobs import Measuring, SweepJob
from coremlscope.studies.sweep.wanted import Wanted, read_zoo

_ZOO = """
devices = "m1"
compute-units = "every"
labels = { family = "mobilenet" }

[[models]]
path = "*.mlpackage"
variants = ["", "int8"]
labels = { accuracy = 70 }

[[models]]
path = "inner"
measure = true
iterations = 3
shapes = [{ image = [1, 3, 32, 32] }, { image = [1, 3, 64, 64] }]
"""


def test_a_list_holds_options_for_all_models_and_for_each(zoo: Path, tmp_path: Path) -> None:
    listed = zoo / "zoo.toml"
    listed.write_text(_ZOO)
    (small, first), (large, second) = find_sources([listed], Wanted())
    listed.unlink()
    assert (small.name, large.name) == ("small.mlpackage", "large.mlpackage")
    assert first.devices == second.devices == ("m1",)
    assert len(first.compute_units) == 4
    assert first.variants == ("", "int8")
    assert (first.labels, first.numbers) == ({"family": "mobilenet"}, {"accuracy": 70.0})
    assert first.measuring is None
    assert second.measuring == Measuring(iterations=3)
    assert [shape["image"][-1] for shape in second.shapes] == [32, 64]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("devices = [", "cannot be read"),
        ("devices = ['m1']", "lists no models"),
        ("models = 3", "lists no models"),
        ("[[models]]\npaths = 'x'", "needs a path"),
        ("device = 'm1'\n[[models]]\npath = 'x'", "unknown option 'device'"),
        ("devices = 3\n[[models]]\npath = 'x'", "list of texts"),
        ("measure = 'yes'\n[[models]]\npath = 'x'", "measure must be true or false"),
        ("iterations = -1\n[[models]]\npath = 'x'", "whole number"),
        ("timeout = 0\n[[models]]\npath = 'x'", "positive number of seconds"),
        ("memory = 3\n[[models]]\npath = 'x'", "must be a size"),
        ("variants = ['squeeze']\n[[models]]\npath = 'x'", "squeeze"),
        ("shapes = [[1]]\n[[models]]\npath = 'x'", "tables of shapes"),
        ("shapes = { x = [0] }\n[[models]]\npath = 'x'", "positive numbers"),
        ("labels = { a = true }\n[[models]]\npath = 'x'", "text or a number"),
        ("compute-units = 'none'\n[[models]]\npath = 'x'", "compute units"),
    ],
)
def test_a_wrong_list_is_one_sentence(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "zoo.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message) as raised:
        list(read_zoo(path, Wanted()))
    assert raised.value.message.startswith(str(path))


def test_sources_are_models_folders_and_patterns(zoo: Path) -> None:
    def names(*sources: object) -> list[str]:
        return [path.name for path, _ in find_sources([str(one) for one in sources], Wanted())]

    assert sorted(names(zoo)) == ["damaged.mlmodel", "large.mlpackage", "small.mlpackage"]
    assert names(zoo / "**/*.mlpackage") == ["large.mlpackage", "small.mlpackage"]
    assert names(zoo / "small.mlpackage", zoo / "inner") == ["small.mlpackage", "large.mlpackage"]
    for source, error in ((zoo / "x*", UsageError), (zoo / "x", NotAModelError)):
        with pytest.raises(error):
            names(source)


def jobs(path: Path, **options: object) -> list[SweepJob]:
    wanted = Wanted(**{"devices": ("m1",), **options})  # type: ignore[arg-type]
    return list(Expander(known={}, place="a processor").jobs_of_path(path, wanted))


def addresses(path: Path, **options: object) -> set[str]:
    return {case.key for job in jobs(path, **options) for case in job.cases}


def test_an_address_depends_on_what_the_result_depends_on(zoo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = zoo / "small.mlpackage"
    plain = addresses(path)
    assert addresses(path) == plain
    assert addresses(path, labels={"a": "b"}, numbers={"c": 1.0}) == plain, "labels are not part of it"
    others: list[dict[str, object]] = [
        {"devices": ("m4",)},
        {"os": "15"},
        {"compute_units": ("cpu_only",)},
        {"variants": ("int8",)},
        {"shapes": ({"image": (1, 3, 64, 64)},)},
        {"functions": ("main",)},
        {"devices": (), "measuring": Measuring()},
        {"devices": (), "measuring": Measuring(iterations=3)},
    ]
    found = [addresses(zoo / "inner" / "large.mlpackage"), *(addresses(path, **one) for one in others)]
    assert len(set().union(plain, *found)) == 1 + len(found)
    monkeypatch.setattr("coremlscope.studies.sweep.jobs.__version__", "99")
    assert not addresses(path) & plain


def test_results_that_are_made_together_are_one_job(zoo: Path) -> None:
    path = zoo / "small.mlpackage"
    (together,) = jobs(path, devices=("m1", "m4"), compute_units=("all", "cpu_only"))
    assert len(together.cases) == 4
    expander = Expander(known={together.cases[0].key: False, together.cases[3].key: True})
    wanted = Wanted(devices=("m1", "m4"), compute_units=("all", "cpu_only"))
    (rest,) = expander.jobs_of_path(path, wanted)
    assert rest == msgspec.structs.replace(rest, cases=together.cases[1:3])
    assert (expander.wanted, expander.found, expander.failed) == (4, 1, 1)
    assert len(jobs(path, measuring=Measuring(), variants=("", "int8"))) == 4


def test_equal_files_give_one_result(zoo: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copy.mlpackage"
    shutil.copytree(zoo / "small.mlpackage", copied)
    expander, wanted = Expander(known={}), Wanted(devices=("m1",))
    assert len(list(expander.jobs_of_path(zoo / "small.mlpackage", wanted))) == 1
    assert list(expander.jobs_of_path(copied, wanted)) == []
    assert (expander.wanted, expander.found) == (2, 1)


def test_every_function_of_a_model_is_a_subject(zoo: Path) -> None:
    (one,) = jobs(zoo / "small.mlpackage", functions=("every",))
    assert one.subject.function == "main"
