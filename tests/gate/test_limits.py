from __future__ import annotations

from pathlib import Path

import pytest

from coremlscope.base.errors import UsageError
from coremlscope.studies.gate.configuration import find_configuration, limits_of, read_configuration
from coremlscope.studies.gate.limits import parse_bytes_limit, parse_decibels, parse_seconds, parse_share


def test_values_as_they_are_written() -> None:
    assert [parse_seconds(text) for text in ("33ms", "0.5 s", 2, 0.25)] == [0.033, 0.5, 2.0, 0.25]
    assert [parse_bytes_limit(text) for text in ("20MB", "1.5 GB", "1KiB", 7)] == [20e6, 1.5e9, 1024.0, 7.0]
    assert [parse_share(text) for text in ("95%", "0.95", 1)] == [0.95, 0.95, 1.0]
    assert [parse_decibels(text) for text in ("40", "40 dB", 40)] == [40.0, 40.0, 40.0]


@pytest.mark.parametrize(
    ("parse", "value"),
    [
        (parse_seconds, "33"[:0]),
        (parse_seconds, "33 MB"),
        (parse_seconds, "-1ms"),
        (parse_seconds, True),
        (parse_bytes_limit, "20ms"),
        (parse_bytes_limit, float("inf")),
        (parse_share, "101%"),
        (parse_decibels, "forty"),
    ],
)
def test_wrong_values(parse: object, value: object) -> None:
    with pytest.raises(UsageError, match="is not a"):
        parse(value)


def test_a_latency_in_words_needs_a_unit() -> None:
    with pytest.raises(UsageError, match="'33' has no unit") as caught:
        parse_seconds("33")
    assert caught.value.hint == "write it as 33ms"


def write(folder: Path, text: str) -> Path:
    path = folder / "pyproject.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_project_has_common_limits_and_those_of_each_model(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
        [tool.coremlscope]
        strict = true
        max-latency = {"iphone-13" = "33ms", "m1" = "9s"}
        max-size = "20MB"
        [[tool.coremlscope.models]]
        path = "a.mlpackage"
        max-size = "1MB"
        max-latency = {"m1" = "1s"}
        baseline = "main.json"
        [[tool.coremlscope.models]]
        path = "more/*.mlpackage"
        min-neural-engine = 0.9
        device = "m1"
        shape = {x = [1, 3]}
        """,
    )
    (tmp_path / "more").mkdir()
    for name in ("c", "b"):
        (tmp_path / "more" / f"{name}.mlpackage").mkdir()
    found = read_configuration(path)
    assert found.strict
    names = [model.relative_to(tmp_path).as_posix() for model, _ in found.models]
    assert names == ["a.mlpackage", "more/b.mlpackage", "more/c.mlpackage"]
    first, second, _ = (limits for _, limits in found.models)
    assert (first.size_bytes, first.latency_s) == (1e6, {"iphone-13": 0.033, "m1": 1.0})
    assert first.baseline == str(tmp_path / "main.json")
    assert (second.size_bytes, second.neural_engine, second.devices) == (20e6, 0.9, ("m1",))
    assert second.all_devices == ("iphone-13", "m1")
    assert second.shapes == {"x": (1, 3)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.other]", "has no table"),
        ("[tool", "is not valid TOML"),
        ("[tool.coremlscope]\nmodels = 3", "array of tables"),
        ("[[tool.coremlscope.models]]\nmax-size = 3", "needs a path"),
        ("[[tool.coremlscope.models]]\npath = 'a'\nmax-sise = 3", "unknown limit 'max-sise'"),
        ("[[tool.coremlscope.models]]\npath = 'a'\nmax-latency = '33ms'", "belongs to a device"),
        ("[[tool.coremlscope.models]]\npath = 'a'\ncompute-units = 'gpu'", "invalid compute units"),
        ("[[tool.coremlscope.models]]\npath = 'no*.mlpackage'\nmax-size = 3", "no model matches"),
        ("[[tool.coremlscope.models]]\npath = '/no*.mlpackage'\nmax-size = 3", "is absolute"),
        ("[[tool.coremlscope.models]]\npath = '**a*'\nmax-size = 3", "is not a pattern|no model matches"),
        ("[[tool.coremlscope.models]]\npath = 'a'\ncompute-units = 'every'", "invalid compute units"),
        ("[[tool.coremlscope.models]]\npath = 'a'\ncompute-units = ['all']", "invalid compute units"),
        ("[[tool.coremlscope.models]]\npath = 'a'\nos = 18", "18 is not text"),
        ("[[tool.coremlscope.models]]\npath = 'a'\nshape = {x = ['a']}", "shapes are lists of sizes"),
        ("[tool.coremlscope]\nmax-latency = {m1 = 33}", "the latency 33 has no unit"),
        ("[tool.coremlscope]\nmax-latncy = {m1 = '33ms'}", "pyproject.toml: unknown limit 'max-latncy'"),
        ("[[tool.coremlscope.model]]\npath = 'a'", "unknown limit 'model'"),
        ("[tool.coremlscope]\nstrict = 'yes'", "strict is not 'yes'"),
    ],
)
def test_wrong_projects(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(UsageError, match=message):
        read_configuration(path)


def test_the_nearest_project_with_our_table_is_found(tmp_path: Path) -> None:
    path = write(tmp_path, "[tool.coremlscope]\nmax-size = '1MB'")
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    write(inner, "[project]\nname = 'x'")
    assert find_configuration(inner) == path


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file") as caught:
        read_configuration(tmp_path / "no.toml")
    assert caught.value.hint == "check the path"


def test_names_beside_limits_are_suggested(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        read_configuration(write(tmp_path, "[[tool.coremlscope.model]]\npath = 'a'"))
    assert caught.value.hint == "did you mean models?"


def test_near_names_are_suggested() -> None:
    with pytest.raises(UsageError) as caught:
        limits_of({"max_latancy": {}}, Path())
    assert caught.value.hint == "did you mean max-latency?"
