from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from coremlscope.base.errors import InputError
from coremlscope.model.features import parse_input, read_input
from coremlscope.model.ir import (
    ArrayFeature,
    DictionaryFeature,
    DoubleFeature,
    DType,
    Feature,
    FeatureType,
    ImageFeature,
    Int64Feature,
    RangeShapes,
    SequenceFeature,
    StringFeature,
)

ARRAY = ArrayFeature(dtype=DType.FP32, shape=(2, 2))


def read(type_: FeatureType, path: Path, resize: str | None = None, **more: Any) -> Any:
    return read_input(Feature("x", type_), path, resize, **more)


def error_of(type_: FeatureType, path: Path, resize: str | None = None) -> tuple[str, str]:
    with pytest.raises(InputError) as caught:
        read(type_, path, resize)
    return caught.value.message, caught.value.hint


def test_arrays(tmp_path: Path) -> None:
    array = np.float32([[1, 2], [3, 4]])
    np.save(tmp_path / "a.npy", array)
    np.savez(tmp_path / "named.npz", x=array, y=array + 1)
    np.savez(tmp_path / "single.npz", whatever=array)
    (tmp_path / "a.json").write_text("[[1, 2], [3, 4]]")
    (tmp_path / "a.txt").write_text("1 2\n3, 4")
    for name in ("a.npy", "named.npz", "single.npz", "a.json", "a.txt"):
        np.testing.assert_array_equal(read(ARRAY, tmp_path / name), array)


@pytest.mark.parametrize(
    ("type_", "name", "text", "expected"),
    [
        (StringFeature(), "a.txt", "hello world\n", "hello world"),
        (StringFeature(), "a.json", '"hello"', "hello"),
        (Int64Feature(), "a.txt", "7", 7),
        (DoubleFeature(), "a.json", "0.5", 0.5),
        (SequenceFeature("string"), "a.txt", "one\ntwo\n", ["one", "two"]),
        (SequenceFeature("int64"), "a.txt", "1 2", [1, 2]),
        (DictionaryFeature("int64"), "a.json", '{"3": 0.5}', {3: 0.5}),
        (DictionaryFeature("string"), "a.json", '{"a": 1}', {"a": 1}),
    ],
)
def test_text_and_json_files(tmp_path: Path, type_: FeatureType, name: str, text: str, expected: Any) -> None:
    (tmp_path / name).write_text(text)
    assert read(type_, tmp_path / name) == expected


@pytest.fixture
def striped(tmp_path: Path) -> Path:
    """An image of 8×4 pixels: left half red, right half green."""
    pixels = np.zeros((4, 8, 3), np.uint8)
    pixels[:, :4, 0] = pixels[:, 4:, 1] = 255
    path = tmp_path / "striped.png"
    Image.fromarray(pixels).save(path)
    return path


def columns(image: Image.Image) -> list[str]:
    names = {(255, 0, 0): "r", (0, 255, 0): "g", (0, 0, 0): "."}
    pixels = np.asarray(image)
    return ["".join(names.get(tuple(map(int, pixel)), "?") for pixel in row) for row in pixels]


def test_resizing(striped: Path) -> None:
    square = ImageFeature("RGB", 4, 4)
    assert read(square, striped).size == (8, 4)
    assert columns(read(square, striped, "center-crop")) == ["rrgg"] * 4
    fitted = columns(read(square, striped, "scale-fit"))
    assert (fitted[0], fitted[3]) == ("....", "....")
    assert [row[0] + row[3] for row in fitted[1:3]] == ["rg", "rg"]
    filled = columns(read(square, striped, "scale-fill"))
    assert [row[0] + row[3] for row in filled] == ["rg"] * 4


def test_flexible_images_keep_an_allowed_size(striped: Path) -> None:
    flexible = ImageFeature("RGB", 4, 4, RangeShapes(((4, 16), (4, 16))))
    assert read(flexible, striped, "scale-fill").size == (8, 4)
    assert read(flexible, striped, "scale-fill", shape=(1, 3, 6, 10)).size == (10, 6)
    narrow = ImageFeature("RGB", 4, 4, RangeShapes(((4, 16), (4, 6))))
    assert read(narrow, striped, "scale-fill").size == (4, 4)


def test_exif_orientation_is_applied(tmp_path: Path, striped: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.open(striped).save(tmp_path / "turned.jpg", exif=exif)
    assert read(ImageFeature("RGB", 4, 4), tmp_path / "turned.jpg").size == (4, 8)


def test_image_from_an_array_file(tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", np.full((1, 3, 4, 8), 255, np.uint8))
    image = read(ImageFeature("RGB", 4, 4), tmp_path / "p.npy", "scale-fill")
    assert (image.size, image.getpixel((0, 0))) == ((4, 4), (255, 255, 255))


def test_invalid_files(tmp_path: Path, striped: Path) -> None:
    (tmp_path / "bad.npy").write_bytes(b"nonsense")
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04nonsense")
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "bad.txt").write_text("one two")
    (tmp_path / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\n0000")
    (tmp_path / "none.png").write_text("not an image")
    np.savez(tmp_path / "two.npz", a=np.zeros(1), b=np.zeros(1))
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    assert "is not a .npy file of plain arrays" in error_of(ARRAY, tmp_path / "bad.npy")[0]
    assert "is not a .npy file of plain arrays" in error_of(ARRAY, tmp_path / "objects.npy")[0]
    assert "cannot be read" in error_of(ARRAY, tmp_path / "bad.npz")[0]
    assert "is damaged" in error_of(ARRAY, tmp_path / "bad.json")[0]
    assert "does not contain numbers separated by spaces" in error_of(ARRAY, tmp_path / "bad.txt")[0]
    assert error_of(ARRAY, tmp_path / "two.npz") == (
        f"{tmp_path / 'two.npz'} does not contain an array named 'x'",
        "it contains: a, b",
    )
    assert f"which cannot be read from {striped}" in error_of(ARRAY, striped)[0]
    image = ImageFeature("RGB", 4, 4)
    assert "cannot be read as an image" in error_of(image, tmp_path / "bad.png")[0]
    assert "its format is not supported" in error_of(image, tmp_path / "none.png")[0]
    assert error_of(image, tmp_path / "stripped.png") == (
        f"the file {tmp_path / 'stripped.png'} for the input 'x' does not exist",
        f"did you mean {striped}?",
    )
    assert error_of(image, tmp_path / "photo.png")[1] == "check the path"
    assert error_of(image, striped, "center-corp")[1] == "did you mean 'center-crop'?"
    (tmp_path / "many.txt").write_text("1 2")
    assert "contains 2 numbers" in error_of(Int64Feature(), tmp_path / "many.txt")[0]


@pytest.mark.parametrize(
    ("type_", "text", "expected"),
    [
        (StringFeature(), "no such file.txt", "no such file.txt"),
        (Int64Feature(), "7", 7),
        (DoubleFeature(), "-0.5", -0.5),
        (ARRAY, "3", [[3, 3], [3, 3]]),
    ],
)
def test_values_on_the_command_line(type_: FeatureType, text: str, expected: Any) -> None:
    np.testing.assert_array_equal(parse_input(Feature("x", type_), text), expected)


def test_paths_on_the_command_line(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((2, 2)))
    assert parse_input(Feature("x", ARRAY), str(tmp_path / "a.npy")).shape == (2, 2)
    with pytest.raises(InputError, match=r"the file b.* does not exist"):
        parse_input(Feature("x", ARRAY), "b.npy")


def test_arrays_and_dictionaries_are_typed_as_json() -> None:
    np.testing.assert_array_equal(parse_input(Feature("x", ARRAY), "[[1, 2], [3, 4]]"), [[1, 2], [3, 4]])
    assert parse_input(Feature("d", DictionaryFeature("int64")), '{"3": 0.5}') == {3: 0.5}
    for text in ("[[1, 2], [3]]", "[1,", "[" * 100_000):
        with pytest.raises(InputError, match="neither an array or dictionary in JSON nor a file"):
            parse_input(Feature("x", ARRAY), text)
    assert parse_input(Feature("s", StringFeature()), "word " * 1000) == "word " * 1000
