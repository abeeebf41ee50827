"""Results as JSON: there and back, described by a schema, and refused in one sentence where damaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import msgspec.structs
import pytest

from coremlscope.base.errors import UsageError
from coremlscope.results.encoding import PROFILE, plain
from coremlscope.results.measurement import Measurement, Runtime
from coremlscope.results.model import ModelSummary
from coremlscope.results.plan import PlannedOps
from coremlscope.results.plan_encoding import encode_ops
from coremlscope.results.profile import Profile, profiles_from_json, read_profiles, to_json, write_profiles
from coremlscope.results.schema import docstring_parts, json_schema
from tests.support.json_schemas import violations
from tests.support.partial_profiles import PROFILES as MAKERS
from tests.support.planned_profiles import planned_profile
from tests.support.profiles import small_summary

SCHEMA = json_schema()
PROFILES = {name: make() for name, make in MAKERS.items()}


def through_text(data: dict[str, Any]) -> Any:
    return json.loads(json.dumps(data, allow_nan=False))


@pytest.mark.parametrize("name", PROFILES)
def test_every_kind_there_and_back(name: str, tmp_path: Path) -> None:
    profile = PROFILES[name]
    data = through_text(profile.to_json())
    assert data["schema"] == PROFILE
    again = Profile.from_json(data)
    assert again == profile
    assert through_text(again.to_json()) == data
    # Plain values as they are, without going through text.
    assert Profile.from_json(profile.to_json()) == profile
    write_profiles(tmp_path / "p.json", [profile])
    assert json.loads((tmp_path / "p.json").read_text()) == data
    assert Profile.load(tmp_path / "p.json") == profile


def test_lists_there_and_back(tmp_path: Path) -> None:
    profiles = tuple(PROFILES.values())
    data = through_text(to_json(profiles))
    assert data["schema"] == "coremlscope.profiles/2"
    assert {profile["schema"] for profile in data["profiles"]} == {PROFILE}
    assert profiles_from_json(data) == profiles
    write_profiles(tmp_path / "p.json", profiles)
    assert read_profiles(tmp_path / "p.json") == profiles
    assert profiles_from_json(through_text(to_json([]))) == ()


@pytest.mark.parametrize("name", PROFILES)
def test_the_schema_describes_every_kind(name: str) -> None:
    assert violations(through_text(PROFILES[name].to_json()), SCHEMA, SCHEMA) == []


def test_the_schema_describes_lists_and_models() -> None:
    for data in (to_json(tuple(PROFILES.values())), to_json(small_summary(list_ops=True))):
        assert violations(through_text(data), SCHEMA, SCHEMA) == []


def _classes(value: Any) -> set[str]:
    """The names of the dataclasses within a result."""
    if isinstance(value, PlannedOps):
        return _classes(encode_ops(value))
    if isinstance(value, msgspec.Struct):
        inner = (getattr(value, field) for field in value.__struct_fields__)
        return {type(value).__name__}.union(*map(_classes, inner))
    if isinstance(value, dict):
        return set().union(*map(_classes, value.values()))
    return set().union(*map(_classes, value)) if isinstance(value, (tuple, list)) else set()


def test_the_kinds_have_something_of_every_class() -> None:
    """So that the tests above check all that the schema defines."""
    found = set().union(*map(_classes, PROFILES.values()))
    assert set(SCHEMA["$defs"]) == found


def test_every_class_and_its_documented_fields_are_described() -> None:
    definitions = SCHEMA["$defs"]
    assert all(definition["description"] for definition in definitions.values())
    assert definitions["Group"]["properties"]["wall_s"]["description"].startswith("Median time")
    assert definitions["PlanColumns"]["properties"]["why"]["description"].startswith("Indices of")
    # Defaults are implementation details; descriptions state them for readers of JSON.
    assert "default" not in json.dumps(SCHEMA["$defs"]["Settings"]["properties"]["warmups"])
    assert "None" not in json.dumps(SCHEMA)


def test_what_a_docstring_says() -> None:
    text, fields = docstring_parts(
        """A thing.

        More of it; None where
        it is absent.

        Attributes:
            first: One.
            second: Two, which is
                True or False.
        """
    )
    assert text == "A thing.\n\nMore of it; null where it is absent."
    assert fields == {"first": "One.", "second": "Two, which is true or false."}
    assert docstring_parts("Just a line.") == ("Just a line.", {})


def test_absent_keys_take_their_defaults_and_unknown_ones_are_ignored() -> None:
    bare = {"schema": PROFILE, "model": {"path": "m.mlmodel"}}
    assert Profile.from_json(bare) == Profile(model=ModelSummary(path="m.mlmodel"))
    data = planned_profile().to_json()
    data["of a later version"] = [1, {"deep": None}]
    data["plans"][0]["settings"][0]["more"] = "text"
    assert Profile.from_json(data) == planned_profile()


REQUIRED = SCHEMA["$defs"]["Measurement"]["required"]
OPTIONAL = [field for field in Measurement.__struct_fields__ if field not in REQUIRED]


@pytest.mark.parametrize("name", OPTIONAL)
def test_every_optional_key_may_be_absent(name: str) -> None:
    """A file without a key that the schema does not require is read all the same."""
    profile = PROFILES["every field"]
    bare = Measurement(label="", runtime=Runtime("", ""), machine=profile.measurement.machine)
    less = {name: getattr(bare, name)}
    if name == "groups":  # the operations refer to them
        less["group"] = ()
    data = through_text(profile.to_json())
    for key in less:
        del data["measurements"][0][key]
    assert Profile.from_json(data).measurement == msgspec.structs.replace(profile.measurement, **less)


def test_plain_values_are_those_of_json() -> None:
    for profile in PROFILES.values():
        values = plain(profile)
        assert msgspec.json.decode(msgspec.json.encode(values)) == through_text(values)


FOREIGN: list[Any] = [
    None,
    3,
    "text",
    [],
    [1],
    {},
    {"schema": None},
    {"schema": [PROFILE]},
    {"schema": "coremlscope.comparison/1"},
    {"schema": "coremlscope.model/2"},
    {"schema": "coremlscope.profiles/1"},
    {"schema": "something.else/2", "model": {"path": "m"}},
]


def sentence_of(error: pytest.ExceptionInfo[UsageError]) -> str:
    """The message, which is one sentence on one line, with something to do about it."""
    message = error.value.message
    assert len(message.splitlines()) == 1
    assert not message.endswith(".")
    assert ". " not in message
    assert error.value.hint
    return message


@pytest.mark.parametrize("data", FOREIGN, ids=repr)
def test_foreign_json_is_refused(data: Any, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps(data))
    with pytest.raises(UsageError) as caught:
        Profile.from_json(data)
    assert sentence_of(caught) == "this JSON is not a profile written by coremlscope"
    with pytest.raises(UsageError) as caught:
        read_profiles(path)
    assert sentence_of(caught) == f"{path}: this JSON is not a profile written by coremlscope"


@pytest.mark.parametrize("version", ["3", "", "2 "])
def test_unknown_versions_are_refused(version: str) -> None:
    schema = f"coremlscope.profile/{version}"
    with pytest.raises(UsageError) as caught:
        Profile.from_json({**planned_profile().to_json(), "schema": schema})
    expected = f"this profile has the schema {schema}, but this version of coremlscope reads {PROFILE}"
    assert sentence_of(caught) == expected


Change = Callable[[dict[str, Any]], object]


def _set(data: dict[str, Any], value: object, *path: str | int) -> None:
    place: Any = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value


def _at(value: object, *path: str | int) -> Change:
    return lambda data: _set(data, value, *path)


DAMAGES: dict[str, Change] = {
    "no model": lambda data: data.pop("model"),
    "a model without a path": lambda data: data["model"].pop("path"),
    "a model of another type": _at(3, "model"),
    "measurements that are not a list": _at({}, "measurements"),
    "no runtime": lambda data: data["measurements"][0].pop("runtime"),
    "an unknown status": _at("gone", "measurements", 0, "status", 0),
    "a status too few": lambda data: data["measurements"][0]["status"].pop(),
    "a group that is not there": _at(9, "measurements", 0, "group", 0),
    "an operation that is not there": _at([77], "measurements", 0, "groups", 0, "ops"),
    "a time that is text": _at("fast", "measurements", 0, "groups", 0, "wall_s"),
    "no statistics": lambda data: data["measurements"][0]["predict"].pop("statistics"),
    "a column too short": lambda data: data["ops"]["flops"].pop(),
    "a column of another type": _at([1, 2, 3, 4, 5, 6], "ops", "name"),
    "an unknown unit": _at("npu", "plans", 0, "backends", "ane"),
    "an unknown setting": _at("everything", "plans", 0, "settings", 0, "compute_units"),
    "no settings": _at([], "plans", 0, "settings"),
    "a backend that is not there": _at(5, "plans", 0, "ops", "choices", "all", "backend", 0),
    "a reason that is not there": _at([5], "plans", 0, "ops", "why", 0),
    "support of another kind": _at(4, "plans", 0, "ops", "supported", "cpu", 0),
    "a plan's column too short": lambda data: data["plans"][0]["ops"]["cost_ms"]["ane"].pop(),
    "a kernel that is not there": _at([70], "kernels", 0, "ops"),
    "an estimate without a latency": lambda data: data["estimates"][0].pop("latency"),
    "an estimate of other kernels": _at([0.1], "estimates", 0, "kernel_s"),
    "an unknown bound": _at("magic", "estimates", 0, "bound"),
    "an unknown origin": _at("guessed", "estimates", 0, "latency", "origin"),
    "findings of another type": _at([3], "findings"),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_damaged_profiles_are_refused(what: str, tmp_path: Path) -> None:
    data = through_text(planned_profile().to_json())
    DAMAGES[what](data)
    with pytest.raises(UsageError) as caught:
        Profile.from_json(data)
    assert sentence_of(caught).startswith("this profile is damaged: ")
    path = tmp_path / "p.json"
    path.write_text(json.dumps(data))
    with pytest.raises(UsageError) as caught:
        Profile.load(path)
    assert sentence_of(caught).startswith(f"{path}: this profile is damaged: ")


@pytest.mark.parametrize("profiles", [3, {}, None, {"0": 1}])
def test_damaged_lists_are_refused(profiles: object) -> None:
    with pytest.raises(UsageError, match="this list of profiles is damaged") as caught:
        profiles_from_json({"schema": "coremlscope.profiles/2", "profiles": profiles})
    sentence_of(caught)


@pytest.mark.parametrize("profiles", [[3], ["text"], [{}], "text"])
def test_lists_of_something_else_are_refused(profiles: object) -> None:
    with pytest.raises(UsageError, match=r"is not a profile|is damaged") as caught:
        profiles_from_json({"schema": "coremlscope.profiles/2", "profiles": profiles})
    sentence_of(caught)


@pytest.mark.parametrize("text", [b"", b"{", b"[" * 200_000, b"\xff\xfe", b'{"schema": NaN}', b"not json"])
def test_what_is_not_json_is_refused(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_bytes(text)
    with pytest.raises(UsageError, match="is not valid JSON") as caught:
        Profile.load(path)
    assert len(caught.value.message.splitlines()) == 1
    assert caught.value.hint


@pytest.mark.parametrize("what", DAMAGES)
def test_the_schema_sees_most_damages(what: str) -> None:
    """All but those that compare columns with each other."""
    data = through_text(planned_profile().to_json())
    DAMAGES[what](data)
    beyond = ("too few", "too short", "not there", "of other kernels", "no settings", "of another kind")
    assert bool(violations(data, SCHEMA, SCHEMA)) != what.endswith(beyond)
