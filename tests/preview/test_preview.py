"""How outputs are shown: classes, boxes, masks, maps, points; sounds and pictures as inputs."""

from __future__ import annotations

import base64
import io
import json
import wave
from pathlib import Path
from typing import Any

import msgspec.structs
import numpy as np
import pytest
from PIL import Image

from coremlscope.base.errors import InputError
from coremlscope.cli.main import main
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.formats.sample import sample_model
from coremlscope.model.features.files import read_input
from coremlscope.model.ir import ArrayFeature, DType, Feature, RangeShapes
from coremlscope.reports.preview.hints import Hints, find_hints
from coremlscope.reports.preview.outputs import view_outputs
from coremlscope.reports.preview.predict import GivenFile, preview_files, read_sound
from coremlscope.results.preview import OutputView

SIZE = (64, 48)


def view(
    hints: Hints | None = None, size: tuple[int, int] = SIZE, about: str = "", **results: Any
) -> OutputView:
    """The view of the first output."""
    return view_outputs(results, {}, hints or Hints(), size, about)[0]


def pixels(address: str) -> np.ndarray[Any, Any]:
    """The pixels of a picture."""
    assert address.startswith("data:image/png;base64,")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2]))))


def write_wav(path: Path, samples: np.ndarray[Any, Any], rate: int, channels: int = 1) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((samples * 32767).round().astype("<i2").tobytes())
    return path


class TestClasses:
    def test_the_best_first(self) -> None:
        shown = view_outputs({"label": "b", "scores": {"a": 0.25, "b": 0.75}}, {}, Hints(), SIZE)
        assert [(one.label, one.score) for one in shown[0].classes] == [("b", 0.75), ("a", 0.25)]
        assert len(shown) == 1  # the label is the best class

    def test_an_array_with_labels(self) -> None:
        shown = view(Hints(labels=("cat", "dog")), logits=np.array([[1.0, 3.0]]))
        assert shown.kind == "classes"
        assert shown.classes[0].label == "dog"


class TestBoxes:
    CONFIDENCE = np.array([[0.9, 0.0], [0.8, 0.0], [0.0, 0.7], [0.1, 0.2]])
    COORDINATES = np.array(
        [[0.3, 0.5, 0.2, 0.4], [0.31, 0.5, 0.2, 0.4], [0.7, 0.5, 0.2, 0.2], [0.5, 0.5, 0.1, 0.1]]
    )

    def test_centred_boxes_of_create_ml(self) -> None:
        hints = Hints(labels=("cup", "flower"))
        shown = view(hints, confidence=self.CONFIDENCE, coordinates=self.COORDINATES)
        assert [(box.label, box.score) for box in shown.boxes] == [("cup", 0.9), ("flower", 0.7)]
        first = shown.boxes[0]
        assert (first.left, first.top, first.width, first.height) == pytest.approx((0.2, 0.3, 0.2, 0.4))
        assert "centre" in shown.note

    def test_corners_in_pixels(self) -> None:
        corners = np.array([[[6.4, 4.8, 32.0, 24.0], [32.0, 24.0, 60.0, 40.0]]])
        shown = view(scores=np.array([[[0.1, 0.9], [0.8, 0.1]]]), boxes=corners)
        assert [box.label for box in shown.boxes] == ["class 1", "class 0"]
        assert (shown.boxes[0].left, shown.boxes[0].top, shown.boxes[0].width) == pytest.approx(
            (0.1, 0.1, 0.4)
        )

    def test_offsets_from_anchors_are_not_boxes(self) -> None:
        random = np.random.default_rng(0)
        shown = view(scores=random.random((100, 3)), boxes=random.normal(0, 3, (100, 4)))
        assert shown.kind == "values"
        assert "anchors" in shown.note

    def test_one_output_of_yolo(self) -> None:
        table = np.zeros((1, 6, 100))
        table[0, :, 7] = (32, 24, 16, 12, 0.1, 0.95)
        table[0, 2:4] += 1
        shown = view(Hints(labels=("a", "b")), size=(640, 640), var_1=table * [[[10]] * 4 + [[1]] * 2])
        assert [(box.label, round(box.left, 3)) for box in shown.boxes] == [("b", round((320 - 85) / 640, 3))]

    def test_nothing_is_found(self) -> None:
        shown = view(confidence=self.CONFIDENCE * 0.1, coordinates=self.COORDINATES)
        assert shown.boxes == ()
        assert "none of 4 boxes" in shown.note


class TestMaps:
    def test_classes_of_pixels(self) -> None:
        classes = np.zeros((24, 32), dtype=np.int32)
        classes[6:18, 8:24] = 2
        hints = Hints("imageSegmenter", {"colors": ["000000", "ffffff", "00ff00"]}, ("none", "cat", "dog"))
        shown = view(hints, semantic=classes)
        assert [(row.label, row.color, row.share) for row in shown.legend] == [
            ("none", "#000000", 0.75),
            ("dog", "#00ff00", 0.25),
        ]
        picture = pixels(shown.picture)
        assert picture.shape == (24, 32, 4)
        assert tuple(picture[10, 10]) == (0, 255, 0, 255)
        assert picture[0, 0, 3] == 0  # the background is clear

    def test_probabilities_of_pixels(self) -> None:
        planes = np.zeros((1, 3, 16, 16))
        planes[0, 1] = 1.0
        shown = view(out=planes)
        assert shown.kind == "mask"
        assert [row.label for row in shown.legend] == ["class 1"]

    def test_depth(self) -> None:
        depth = np.linspace(2, 5, 16 * 20).reshape(1, 1, 16, 20).astype(np.float32)
        shown = view(Hints("depthEstimation"), out=depth)
        assert (shown.kind, shown.title, shown.low, shown.high) == ("map", "Depth", 2.0, 5.0)
        picture = pixels(shown.picture)
        assert picture.shape == (16, 20, 4)
        assert tuple(picture[0, 0, :3]) == (68, 1, 84)
        assert tuple(picture[-1, -1, :3]) == (253, 231, 37)

    def test_numbers_that_are_not_finite_are_clear(self) -> None:
        shown = view(depth=np.full((16, 16), np.nan))
        assert shown.kind == "values"
        values = np.ones((16, 16))
        values[3, 4] = np.inf
        assert pixels(view(depth=values).picture)[3, 4, 3] == 0

    def test_points_of_heat_maps(self) -> None:
        maps = np.zeros((14, 24, 32))
        maps[0, 6, 8] = maps[1, 12, 16] = 0.9
        shown = view(about="hourglass.mlmodel", out=maps)
        assert [(point.label, point.x, point.y) for point in shown.points] == [
            ("1", 8.5 / 32, 6.5 / 24),
            ("2", 16.5 / 32, 12.5 / 24),
        ]
        assert "12 are below 0.1 and left out, the highest is 0.9" in shown.note

    @pytest.mark.parametrize(("low", "high"), [(0, 1), (-1, 1), (0, 255), (-70, 40)])
    def test_three_planes_are_a_picture(self, low: float, high: float) -> None:
        planes = np.full((1, 3, 16, 20), float(low))
        planes[0, 0, 3, 4] = high
        shown = view(out=planes)
        assert (shown.kind, shown.title, shown.low, shown.high) == ("image", "Picture", low, high)
        picture = pixels(shown.picture)
        assert picture.shape == (16, 20, 3)
        assert tuple(picture[3, 4]) == (255, 0, 0)
        assert f"from {low} to {high}" in shown.note

    def test_joints_of_posenet(self) -> None:
        heat, offsets = np.zeros((17, 9, 9)), np.zeros((34, 9, 9))
        heat[5, 2, 3] = 1.0
        offsets[5, 2, 3], offsets[22, 2, 3] = 4.0, -2.0
        results = {"heatmap": heat, "offsets": offsets, "displacementFwd": np.zeros((32, 9, 9))}
        shown = view_outputs(results, {}, Hints("poseEstimation", {"output_stride": 16}), (129, 129))
        assert len(shown) == 1
        shoulder = shown[0].points[5]
        assert shoulder.label == "left shoulder"
        assert (shoulder.x * 129, shoulder.y * 129) == pytest.approx((3 * 16 - 2, 2 * 16 + 4))


class TestNumbers:
    def test_a_row_is_a_curve(self) -> None:
        shown = view(out=np.arange(2000.0)[None])
        assert shown.kind == "curve"
        assert (len(shown.curve), shown.curve[0], shown.curve[-1]) == (512, 0, 1999)
        assert "the largest is number 1999" in shown.note

    def test_a_few_numbers(self) -> None:
        assert view(out=np.array([1.5, 2.0])).text == "1.5, 2"
        assert view(out=np.array([np.nan])).text == "no finite number"

    def test_one_number(self) -> None:
        shown = view(out=np.array([[0.27721]]))
        assert (shown.text, shown.low, shown.high) == ("0.2772", None, None)
        assert view(out=-1.442166849837621).text == "-1.44217"

    def test_a_text(self) -> None:
        assert (view(out="hello").kind, view(out="hello").text) == ("text", "hello")


class TestHints:
    def test_metadata(self) -> None:
        model = sample_model(size=32, width=0.5, classes=10)
        key = "com.apple.coreml.model.preview"
        said = {f"{key}.type": "imageSegmenter", f"{key}.parameters": '{"labels": ["a", "b"], "colors": []}'}
        metadata = msgspec.structs.replace(model.metadata, user_defined=said)
        hints = find_hints(msgspec.structs.replace(model, metadata=metadata))
        assert (hints.type, hints.labels) == ("imageSegmenter", ("a", "b"))

    @pytest.mark.parametrize(
        ("said", "labels"),
        [
            ({"classes": "cup,flower"}, ("cup", "flower")),
            ({"names": "{0: 'person', 1: 'bicycle'}"}, ("person", "bicycle")),
            ({"names": "{" * 500}, ()),
            ({"com.apple.coreml.model.preview.parameters": "[1, 2"}, ()),
        ],
    )
    def test_labels(self, said: dict[str, str], labels: tuple[str, ...]) -> None:
        model = sample_model(size=32, width=0.5, classes=10)
        metadata = msgspec.structs.replace(model.metadata, user_defined=said)
        assert find_hints(msgspec.structs.replace(model, metadata=metadata)).labels == labels


class TestSound:
    FEATURE = Feature("audio", ArrayFeature(dtype=DType.FP32, shape=(1, 8000)))

    def test_a_tone_keeps_its_pitch_at_another_rate(self, tmp_path: Path) -> None:
        time = np.arange(44100) / 44100
        file = write_wav(tmp_path / "tone.wav", 0.5 * np.sin(2 * np.pi * 441 * time), 44100)
        samples, note = read_sound(self.FEATURE, file, 8000)
        assert samples.shape == (1, 8000)
        assert samples.dtype == np.float32
        spectrum = np.abs(np.fft.rfft(samples[0]))
        assert int(spectrum.argmax()) == 441
        assert np.abs(samples[0, 1000:7000]).max() == pytest.approx(0.5, abs=0.01)
        assert note == "1.00 s of 1.00 s, taken at 8 kHz (recorded at 44.1 kHz)"

    def test_a_short_sound_is_followed_by_zeros(self, tmp_path: Path) -> None:
        both = np.stack([np.full(100, 0.5), np.zeros(100)], axis=1).reshape(-1)
        samples, _ = read_sound(self.FEATURE, write_wav(tmp_path / "a.wav", both, 8000, channels=2), 8000)
        assert samples[0, :100] == pytest.approx(np.full(100, 0.25), abs=1e-4)
        assert not samples[0, 100:].any()

    def test_a_flexible_input_takes_all_of_it(self, tmp_path: Path) -> None:
        feature = Feature(
            "audio",
            ArrayFeature(dtype=DType.FP32, shape=(1, 1), flexibility=RangeShapes(((1, 1), (1, 9000)))),
        )
        samples, _ = read_sound(feature, write_wav(tmp_path / "a.wav", np.zeros(123), 8000), 8000)
        assert samples.shape == (1, 123)

    @pytest.mark.parametrize("content", [b"", b"RIFF", b"RIFF\x00\x00\x00\x00WAVEfmt ", b"\x00" * 100])
    def test_damaged_files(self, content: bytes, tmp_path: Path) -> None:
        (tmp_path / "a.wav").write_bytes(content)
        with pytest.raises(InputError, match=r"a\.wav"):
            read_sound(self.FEATURE, tmp_path / "a.wav", 8000)

    def test_an_input_of_several_axes(self, tmp_path: Path) -> None:
        feature = Feature("mel", ArrayFeature(dtype=DType.FP32, shape=(1, 80, 100)))
        with pytest.raises(InputError, match="several long axes"):
            read_sound(feature, write_wav(tmp_path / "a.wav", np.zeros(10), 8000), 8000)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("preview") / "small.mlpackage"
    write_mlpackage(sample_model(size=32, width=0.5, classes=10), path)
    return path


def test_a_photo_on_a_classifier(model: Path, tmp_path: Path) -> None:
    Image.new("RGB", (80, 50), (200, 30, 30)).save(tmp_path / "photo.png")
    name = "image"
    found = preview_files(model, [GivenFile(name, tmp_path / "photo.png", "photo.png")], "scale-fill", 16000)
    assert found.picture_size == (32, 32)
    assert tuple(pixels(found.picture)[5, 5, :3]) == (200, 30, 30)
    assert found.inputs[0].source == "photo.png"
    assert found.inputs[0].note == "stretched to 32×32"
    assert found.outputs[0].kind == "classes"
    assert found.outputs[0].classes_in_all == 10
    assert sum(one.score for one in found.outputs[0].classes) == pytest.approx(1, abs=1e-3)
    assert found.predict_s


def test_synthetic_inputs_are_named(model: Path) -> None:
    found = preview_files(model, [], "scale-fill", 16000)
    assert [given.source for given in found.inputs] == ["synthetic"]


def test_an_unknown_input(model: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown input 'imag'"):
        preview_files(model, [GivenFile("imag", tmp_path / "x.png", "x.png")], "scale-fill", 16000)


def test_numbers_of_a_table(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,2\n3,4\n", encoding="utf-8")
    feature = Feature("x", ArrayFeature(dtype=DType.FP32, shape=(2, 2)))
    assert read_input(feature, tmp_path / "a.csv").tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("photo.jpg", b"no picture", "photo.jpg cannot be read as an image: it is not an image"),
        ("numbers.npy", b"no numbers", "numbers.npy is not a .npy file"),
        ("sound.wav", b"", "'image' does not take sounds"),
    ],
)
def test_errors_have_the_name_of_the_file_that_was_given(
    model: Path, tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    path = (tmp_path / "input-0").with_suffix(Path(name).suffix)
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        preview_files(model, [GivenFile("image", path, name)], "scale-fill", 16000)
    assert str(tmp_path) not in caught.value.message


def test_a_picture_of_too_many_pixels(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("L", (2000, 2000)).save(tmp_path / "input-0.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(InputError, match=r"^huge\.png has 4 million pixels"):
        preview_files(model, [GivenFile("image", tmp_path / "input-0.png", "huge.png")], "scale-fill", 16000)


def test_predict_draws_the_outputs_on_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_mlpackage(sample_model(size=32, width=0.25, classes=10), tmp_path / "m.mlpackage")
    Image.new("RGB", (8, 8)).save(tmp_path / "photo.png")
    command = ["predict", str(tmp_path / "m.mlpackage"), "-o", str(tmp_path / "page.html"), "--input"]
    assert main([*command, f"image={tmp_path / 'photo.png'}"]) == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    payload = json.loads(page.partition('id="payload">')[2].partition("</script>")[0])["result"]
    assert payload["schema"] == "coremlscope.preview/1"
    assert payload["inputs"][0]["source"] == "photo.png"
    assert [len(output["classes"]) for output in payload["outputs"]] == [10]
    assert main([*command, "image=1"]) == 2
    assert main([*command, f"image={tmp_path / 'photo.png'}", "--precision", "fp16"]) == 2
