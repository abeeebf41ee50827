"""Damaged MIL text gives a program or a clear error with line and column, quickly and in little memory."""

from __future__ import annotations

import random
import re
import tracemalloc
from pathlib import Path

import pytest

from coremlscope.base.errors import CorruptModelError, ModelError, UnsupportedModelError
from coremlscope.formats.miltext import lexer, parse_program, print_program
from coremlscope.formats.miltext.lexer import Tokens
from coremlscope.model import ir
from tests.support.constant_programs import linear_model
from tests.support.ir_models import accumulator, adder, perceptron
from tests.support.mil_programs import blob_opener
from tests.support.mutations import mutate

_PLACE = re.compile(r"^line \d+, column \d+ of model\.mil is damaged: ")
_LARGE = """program(1.0)
[buildInfo = dict<tensor<string, []>, tensor<string, []>>({{"coremlc-version", "3500.32.1"}})]
{
    func main<ios16>(tensor<fp16, [1, ?]> x) [
            Shapes = tuple<tensor<string, []>, list<tensor<int32, [2]>, ?>>(("x", [[1, 4], [2, 8]]))] {
            tensor<fp16, [2, 2]> w = const()[name = tensor<string, []>("w\\n"),
                val = tensor<fp16, [2, 2]>([[0x1p+0, -0x1.8p-3], [inf, 1.5e-3]])];
            tensor<int8, [4, 4]> b = const()[val = tensor<int8, [4, 4]>(BLOBFILE(
                path = tensor<string, []>("@model_path/weights/weight.bin"),
                offset = tensor<uint64, []>(64)))];
            tensor<fp16, [1, ?]> y, tensor<bool, []> z = some_op(
                values = (x, w), x = x, y = tensor<fp16, []>(0x1p+1));
            tensor<fp16, [1, ?]> c = cond(pred = z)[name = tensor<string, []>("c")]
                true() {
                    tensor<fp16, [1, ?]> t = relu(x = y);
                } -> (t),
                false() {
                } -> (y);
            write_state(data = c, input = x);
        } -> (c);
}
"""


def _texts() -> list[bytes]:
    texts = [_LARGE.encode()]
    for model in (linear_model(), accumulator(), adder(), perceptron()):
        assert isinstance(model.content, ir.Program)
        texts.append(print_program(model.content).encode())
    return texts


def _check(data: bytes) -> bool:
    """Reads a text; only errors of this package with a place may be raised."""
    try:
        program = parse_program(data, blob_opener())
    except ModelError as error:
        if not error.hint or not error.message.isprintable() or len(error.message) > 1000:
            raise AssertionError(f"{error.message!r}, {error.hint!r}") from error
        if not isinstance(error, UnsupportedModelError) and not _PLACE.match(error.message):
            raise AssertionError(error.message) from error
        return False
    parse_program(print_program(program), blob_opener())
    return True


def _run(count: int, seed: int, texts: list[bytes]) -> int:
    generator = random.Random(seed)
    return sum(_check(mutate(generator.choice(texts), generator)) for _ in range(count))


def test_mutations() -> None:
    texts = _texts()
    assert all(map(_check, texts))
    readable = _run(1000, 0, texts)
    assert 0 < readable < 750


@pytest.mark.long
def test_ten_thousand_mutations() -> None:
    assert _run(10_000, 1, _texts()) < 7500


@pytest.mark.long
@pytest.mark.corpus
def test_mutations_of_compiled_models(corpus: Path) -> None:
    texts = [path.read_bytes() for path in sorted(corpus.glob("models/*/*.mlmodelc/model.mil"))]
    _run(2000, 2, [text for text in texts if len(text) < 30_000])


def test_truncations() -> None:
    for text in _texts()[:2]:
        for length in range(0, len(text) - 2, 5):
            assert not _check(text[:length])


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("tensor<fp32, [99999999999, 99999999999]>([1])", "do not have the shape"),
        ("tensor<fp32, [4000000000]>([])", "do not have the shape"),
        ("tensor<fp32, [2, 2]>([[1, 2], [3]])", "do not have the shape"),
        ("tensor<fp32, [2, 2]>([1, 2, 3, 4])", "do not have the shape"),
        ("tensor<fp32, [2]>([[1, 2]])", "expected an element"),
        ("tensor<fp32, [0, 99999999999999999999]>([])", "not a size"),
        (f"tensor<fp32, [{'1, ' * 40}1]>([1])", "has 41 dimensions"),
        ("tensor<fp33, [1]>([1])", "expected a tensor type"),
        ("tensor<fp32, [...]>([1])", "do not have the shape"),
        ("int8(128)", "'128' is not a valid int8"),
        ("uint4(16)", "'16' is not a valid uint4"),
        ("int32(1.5)", "'1.5' is not a valid int32"),
        ("fp16(0x1p+16)", "'0x1p+16' is not a valid fp16"),
        ("fp32(1_0)", "'1_0' is not a valid fp32"),
        ("fp32(zero)", "'zero' is not a valid fp32"),
        (f"int32({'9' * 10_000})", "is not a valid int32"),
        ("bool(1)", "'1' is not a valid bool"),
        ("string(text)", "'text' is not a valid string"),
        ('int32("1")', "is not a valid int32"),
        ("list<int32, 3>([1, 2])", "has 2 elements"),
        ("tuple<int32, int32>((1))", "expected ','"),
        ("dict<string, int32>({{1}})", "not a valid string"),
        ("state<fp32>(1)", "a state has no constant value"),
        (
            'tensor<string, [2]>(BLOBFILE(path = string("w"), offset = uint64(64)))',
            "cannot be in a weight file",
        ),
        ('tensor<fp16, [2]>(BLOBFILE(path = string("w")))', "a path and an offset"),
        ('tensor<fp16, [2]>(BLOBFILE(path = string("w"), offset = int64(-64)))', "negative"),
        ('tensor<fp16, [2]>(BLOBFILE(path = string("w"), offset = string("64")))', "offset an integer"),
        ("tuple<" * 100, "more than 64 levels"),
        ("tensor<fp32, [1]>" + "([" * 100, "expected"),
        ("q", "expected a type"),
    ],
)
def test_damaged_constants(content: str, problem: str) -> None:
    text = f"program(1.3)\n{{\n  func main<ios18>() {{\n    const()[val = {content}];\n  }} -> ();\n}}"
    tracemalloc.start()
    try:
        with pytest.raises(CorruptModelError, match=r"^line 4, column \d+ of model\.mil") as caught:
            parse_program(text, blob_opener())
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
    assert problem in caught.value.message


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("", (1, 1), "expected 'program', found the end of the text"),
        ("\n\n  model", (3, 3), "expected 'program', found 'model'"),
        ("program(1.3)\n{\n}\n", (3, 1), "the program has no functions"),
        ("program(1.3)\n{\n func f() {\n } -> (y);\n}", (4, 8), "'y' is used before its definition"),
        ("program(1.3)\n{\n func f() { } -> ();\n func f() { } -> ();\n}", (4, 2), "two functions f"),
        ("program(1.3)\n{\n func f() { } -> ();\n}\nmore", (5, 1), "expected the end of the text"),
        (
            "program(1.3)\n{\n func f() { x() } -> ();\n}",
            (3, 17),
            "expected ';' or a nested block, found '}'",
        ),
        ("program(1.3)\n{\n func f() { int32 x() } -> ();\n}", (3, 20), "',' or '='"),
        ('program(1.3)\n[a = string("x)]', (2, 13), "a string has no end"),
        ("program(1.3)\n{\n func f() { x()" + "{ y() " * 100, (3, 14), ""),
    ],
)
def test_damaged_programs(text: str, place: tuple[int, int], problem: str) -> None:
    with pytest.raises(CorruptModelError) as caught:
        parse_program(text, blob_opener())
    if problem:
        line, column = place
        assert caught.value.message.startswith(f"line {line}, column {column} of model.mil")
        assert problem in caught.value.message
    else:
        assert "more than 64 levels are nested" in caught.value.message


def test_bytes_that_are_not_utf_8() -> None:
    with pytest.raises(
        CorruptModelError, match=r"line 2, column 3 of model\.mil is damaged: the text is not UTF-8"
    ):
        parse_program("ä\nöü".encode() + b"\xff", blob_opener())


def test_sizes_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    text = _LARGE.encode()
    monkeypatch.setattr(lexer, "_MAX_BYTES", len(text) - 1)
    with pytest.raises(UnsupportedModelError, match="bytes"):
        parse_program(text, blob_opener())
    monkeypatch.setattr(lexer, "_MAX_BYTES", len(text))
    monkeypatch.setattr(lexer, "_MAX_SEPARATORS", 100)
    with pytest.raises(UnsupportedModelError, match="more than 100 brackets"):
        parse_program(text, blob_opener())


@pytest.mark.parametrize(
    "piece", [" ", "[", '"', "((", "tensor<fp16, [1, ", 'string("\\', "a\n", "[1, ", "->", "é"]
)
def test_repeated_pieces_take_linear_time(piece: str) -> None:
    """In quadratic time, this test would take hours."""
    assert not _check(b"program(1.3)" + piece.encode() * 200_000)
    assert not _check(piece.encode() * 200_000 + b'"')


@pytest.mark.parametrize("rest", ['\\"', "a", "\\\\x", '(\\"string(\\"'])
@pytest.mark.parametrize("count", [1, 1000])
def test_the_rest_of_a_text_without_an_end_of_its_string_is_read_once(rest: str, count: int) -> None:
    for end in ("", "\\"):
        tokens = Tokens(f'program(1.0) x = string("{rest * count}{end}', "m.mil")
        assert [token for token in tokens if token] == [
            "program",
            "(",
            "1.0",
            ")",
            "x",
            "=",
            "string",
            "(",
            '"',
        ]
