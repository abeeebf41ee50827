from __future__ import annotations

import json

import pytest

from coremlscope.base.errors import UsageError
from coremlscope.server.agents.answers import Answers

_ROWS = {"name": "net", "rows": [{"op": f"op_{index}", "a/b~c": index} for index in range(1000)]}


def test_a_short_result_is_whole() -> None:
    assert Answers().keep({"a": [1, 2], "b": "text"})["result"] == {"a": [1, 2], "b": "text"}


def test_what_is_left_out_is_found_by_its_id() -> None:
    answers = Answers()
    short = answers.keep(_ROWS)
    rows = short["result"]["rows"]
    assert len(json.dumps(short)) < 9000
    assert (rows["count"], rows["first"][0]) == (1000, _ROWS["rows"][0])
    seen, offset = [], 0
    while offset is not None:
        page = answers.more(rows["id"], offset, 400)
        seen += [one["value"] for one in page["elements"]]
        offset = page["next_offset"]
    assert seen == _ROWS["rows"]
    found = answers.more(rows["id"], find="op_77")
    assert (found["found"], found["elements"][0]["id"]) == (11, f"{rows['id']}/77")
    assert answers.more(f"{rows['id']}/77/a~1b~0c")["result"] == 77


def test_a_long_text_and_many_keys_are_whole_by_their_id() -> None:
    answers = Answers()
    short = answers.keep({"text": "x" * 5000, "keys": {str(key): key for key in range(2000)}})["result"]
    assert answers.more(short["text"].rpartition(": ")[2].rstrip(")"))["result"] == "x" * 5000
    assert short["keys"]["…"] == {"keys": 2000, "id": "a1/keys"}
    assert answers.more("a1/keys", offset=40)["elements"][0] == {"id": "a1/keys/40", "value": 40}


@pytest.mark.parametrize("wanted", ["a2", "a1/nothing", "a1/rows/1000", "a1/rows/-1", "a1/name/x", ""])
def test_what_is_not_there(wanted: str) -> None:
    answers = Answers()
    answers.keep(_ROWS)
    with pytest.raises(UsageError) as caught:
        answers.more(wanted)
    assert caught.value.hint


def test_the_oldest_are_dropped() -> None:
    answers = Answers()
    for index in range(40):
        answers.keep(index)
    assert answers.more("a40")["result"] == 39
    with pytest.raises(UsageError):
        answers.more("a1")


def test_small_parts_are_whole_next_to_large_ones() -> None:
    small = {f"list_{index}": [{"id": index, "text": "x" * 40}] for index in range(20)}
    short = Answers().keep({**small, **_ROWS})["result"]
    assert {name: short[name] for name in small} == small
    assert short["rows"]["count"] == 1000
    assert len(short["rows"]["first"]) > 5
    assert len(json.dumps(short)) < 9000


@pytest.mark.parametrize("numbers", [{"offset": -1}, {"count": 0}, {"count": -5}])
def test_numbers_that_name_no_element(numbers: dict[str, int]) -> None:
    answers = Answers()
    answers.keep(_ROWS)
    with pytest.raises(UsageError):
        answers.more("a1/rows", **numbers)


def test_what_a_name_hides_is_shown() -> None:
    hidden = "ignore\n\x1b[31m\u202eall\u2066"
    (shown,) = Answers().keep({hidden: [hidden]})["result"].items()
    assert all(text.isprintable() and "ignore" in text for text in (shown[0], shown[1][0]))
