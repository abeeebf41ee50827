"""One prediction from files, as it is shown to a person. It is called in a process of its own."""

from __future__ import annotations

import contextlib
import math
import time
import wave
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import msgspec.structs
import numpy as np

from coremlscope.base.errors import InputError
from coremlscope.formats import container
from coremlscope.model.features import check_shape, describe_feature, describe_shape
from coremlscope.model.features.dummy import dummy_values
from coremlscope.model.features.files import read_input
from coremlscope.model.features.images import Resize, is_image
from coremlscope.model.features.names import suggest_name
from coremlscope.model.ir import Array, ArrayFeature, Feature, ImageFeature, Model, default_shape
from coremlscope.reports.preview.hints import find_hints
from coremlscope.reports.preview.outputs import view_outputs
from coremlscope.reports.preview.pictures import encode_picture, shrink
from coremlscope.results.preview import GivenInput, Preview
from coremlscope.runtime.engines import engine
from coremlscope.runtime.engines.host import processor_name
from coremlscope.runtime.execution.pipeline import open_predictor
from coremlscope.runtime.execution.wiring import bodies_of

# Sounds as inputs: WAV files become the samples that an array takes.

#: Seconds of a file that are read at most.
_LONGEST_S = 60.0
#: Samples of 8 bits are unsigned, wider ones signed: the width in bytes, and the value of full scale.
_FULL_SCALE = {1: 128.0, 2: 32768.0, 3: 8388608.0, 4: 2147483648.0}


def read_sound(feature: Feature, path: Path, rate_Hz: int) -> tuple[Array, str]:  # noqa: N803
    """Reads a WAV file as the samples of an input.

    Channels are averaged. The samples are from -1 to 1 for inputs of floats, and 16-bit numbers for inputs of
    integers. A sound that is shorter than the input is followed by zeros.

    Args:
        feature: The input: an array with one long axis.
        path: The file.
        rate_Hz: The sample rate that the model takes, which no file says.

    Returns:
        The array, and what was done.

    Raises:
        InputError: The file is not a WAV file of PCM samples, or the input does not take sounds.
    """
    type_ = feature.type
    shape = default_shape(type_) if isinstance(type_, ArrayFeature) else None
    if not isinstance(type_, ArrayFeature) or not shape:
        raise InputError(f"the input {feature.name!r} does not take sounds", "choose another input")
    samples, own_Hz = _read_wav(path)  # noqa: N806
    resampled = _resample(samples, own_Hz, rate_Hz)
    axis = max(range(len(shape)), key=lambda i: (shape[i] or 1, i))
    wanted = [d or 1 for d in shape]
    if type_.flexibility is not None and _allows(feature, wanted, axis, len(resampled)):
        wanted[axis] = len(resampled)
    room = wanted[axis]
    if math.prod(wanted) != room:
        raise InputError(
            f"the input {feature.name!r} has several long axes, so it does not take the samples of a sound",
            "give what the model's preprocessing makes of the sound, as .npy",
        )
    values = np.zeros(room)
    values[: min(room, len(resampled))] = resampled[:room]
    if type_.dtype.is_int:
        values = (values * 32767).round()
    used_s = min(room, len(resampled)) / rate_Hz
    note = f"{used_s:.2f} s of {len(samples) / own_Hz:.2f} s, taken at {rate_Hz / 1e3:g} kHz"
    if own_Hz != rate_Hz:
        note += f" (recorded at {own_Hz / 1e3:g} kHz)"
    return values.reshape(wanted).astype(type_.dtype.numpy), note


def _allows(feature: Feature, shape: list[int], axis: int, length: int) -> bool:
    try:
        check_shape(feature, [length if i == axis else d for i, d in enumerate(shape)])
    except InputError:
        return False
    return True


def _read_wav(path: Path) -> tuple[Array, int]:
    """Returns the samples of a file, channels averaged, from -1 to 1, and their rate in Hz."""
    try:
        with wave.open(str(path)) as file:
            rate, width, channels = file.getframerate(), file.getsampwidth(), file.getnchannels()
            raw = file.readframes(min(file.getnframes(), int(_LONGEST_S * max(rate, 1))))
    except (wave.Error, EOFError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{path} is not a WAV file of PCM samples: {str(error) or 'it ends early'}",
            "save it as a 16-bit WAV file",
        ) from None
    if not rate or not channels or width not in _FULL_SCALE:
        raise InputError(f"{path} has no samples that can be read", "save it as a 16-bit WAV file")
    frame = width * channels
    octets = np.frombuffer(raw[: len(raw) // frame * frame], dtype=np.uint8).reshape(-1, width)
    if not len(octets):
        raise InputError(f"{path} has no samples", "choose another file")
    if width == 1:
        numbers = octets[:, 0].astype(np.float64) - 128
    else:
        numbers = octets[:, -1].astype(np.int8).astype(np.float64) * 256 ** (width - 1)
        for place in range(width - 1):
            numbers += octets[:, place].astype(np.float64) * 256**place
    return numbers.reshape(-1, channels).mean(axis=1) / _FULL_SCALE[width], rate


def _resample(samples: Array, own_Hz: int, rate_Hz: int) -> Array:  # noqa: N803
    """Changes the rate by the Fourier transform: frequencies that the new rate cannot hold are left out."""
    length = round(len(samples) * rate_Hz / own_Hz)
    if own_Hz == rate_Hz or length < 1:
        return samples
    spectrum = np.fft.rfft(samples)
    kept = np.zeros(length // 2 + 1, dtype=spectrum.dtype)
    common = min(len(kept), len(spectrum))
    kept[:common] = spectrum[:common]
    return np.fft.irfft(kept, length) * (length / len(samples))


#: Predictions that are timed after the first one, and the seconds after which no further one begins.
_MOST_TIMED, _TIMED_S = 5, 2.0
#: Treatments of pictures of another size.
_RESIZED: Mapping[Resize, str] = {
    "scale-fill": "stretched to",
    "scale-fit": "fitted into",
    "center-crop": "cropped to",
}
_PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff")


class GivenFile(msgspec.Struct, frozen=True):
    """A file with the value of an input.

    Attributes:
        input: The name of the input.
        path: The file.
        source: What it is called: the name of the file, or `typed`.
    """

    input: str
    path: Path
    source: str


def preview_files(model: Path, files: Sequence[GivenFile], resize: Resize, rate_Hz: int) -> Preview:  # noqa: N803
    """Makes a prediction from files. Required inputs without a file get synthetic values.

    Args:
        model: The model.
        files: The values of inputs.
        resize: How pictures of another size are resized.
        rate_Hz: The sample rate that the model takes sounds at.

    Raises:
        CoremlscopeError: The model cannot be read or run, or a file does not hold a value of its input.
    """
    read = container.read(model)
    begin = time.perf_counter()
    with open_predictor(read) as predictor:
        features = {feature.name: feature for feature in predictor.description.inputs}
        values: dict[str, Any] = {}
        notes: dict[str, str] = {}
        for file in files:
            if file.input not in features:
                raise InputError(f"unknown input {file.input!r}", suggest_name(file.input, features, "input"))
            with _named(file):
                values[file.input], notes[file.input] = _read(
                    features[file.input], file.path, resize, rate_Hz
                )
        synthetic = _synthetic(read, list(features.values()), values)
        given = {**synthetic, **values}
        results, load_s = predictor.predict(given), time.perf_counter() - begin
        predict_s = _time(lambda: predictor.predict(given))
        outputs = {feature.name: feature for feature in predictor.description.outputs}
    sources = {file.input: file.source for file in files}
    picture = next((value for value in values.values() if is_image(value)), None)
    size = (0, 0) if picture is None else (picture.width, picture.height)
    about = f"{model.name} {read.metadata.description}"
    runtime = engine()
    return Preview(
        inputs=tuple(
            GivenInput(
                name, _type(features[name], value), sources.get(name, "synthetic"), notes.get(name, "")
            )
            for name, value in given.items()
        ),
        outputs=view_outputs(results, outputs, find_hints(read), size, about),
        picture="" if picture is None else encode_picture(shrink(picture)),
        picture_size=size,
        measured_by=f"{runtime.title} {runtime.version} on {processor_name()}",
        predict_s=predict_s,
        load_s=load_s,
    )


@contextlib.contextmanager
def _named(file: GivenFile) -> Iterator[None]:
    """Names a file in errors as the person does who gave it: its path is one of ours."""
    name = f"what is typed for {file.input!r}" if file.source == "typed" else file.source
    try:
        yield
    except InputError as error:
        message, hint = (text.replace(str(file.path), name) for text in (error.message, error.hint))
        raise InputError(message, hint) from None


def _synthetic(model: Model, features: Sequence[Feature], values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns values of the required inputs that no file is given for."""
    missing = [f.name for f in features if f.name not in values and not f.is_optional]
    if not missing:
        return {}
    made = dummy_values(model.description.main, *bodies_of(model))
    return {name: made[name] for name in missing}


def _time(predict: Callable[[], object]) -> tuple[float, ...]:
    seconds: list[float] = []
    while len(seconds) < _MOST_TIMED and sum(seconds) < _TIMED_S:
        begin = time.perf_counter()
        predict()
        seconds.append(time.perf_counter() - begin)
    return tuple(seconds)


def _read(feature: Feature, path: Path, resize: Resize, rate_Hz: int) -> tuple[Any, str]:  # noqa: N803
    """Returns the value of an input, and what was done with the file."""
    suffix = path.suffix.lower()
    if suffix in (".wav", ".wave"):
        return read_sound(feature, path, rate_Hz)
    if suffix in _PICTURES and isinstance(feature.type, ArrayFeature):
        return _picture_numbers(feature, path, resize)
    value = read_input(feature, path, resize)
    if is_image(value):
        return value, f"{_RESIZED[resize]} {value.width}×{value.height}"
    return value, ""


def _picture_numbers(feature: Feature, path: Path, resize: Resize) -> tuple[Any, str]:
    """Returns a picture as the numbers of an array: planes, height, width, or with the planes last."""
    assert isinstance(feature.type, ArrayFeature)
    shape = tuple(d or 1 for d in default_shape(feature.type) or ())
    kept = [d for d in shape if d != 1] if 3 in shape else []
    if len(kept) != 3 or 3 not in (kept[0], kept[2]):
        raise InputError(
            f"the input {feature.name!r} takes {describe_feature(feature.type)}, which is no picture",
            "give it as .npy or numbers",
        )
    is_first = kept[0] == 3
    height, width = kept[1:] if is_first else kept[:2]
    picture = ImageFeature(width=width, height=height, color_space="RGB")
    image = read_input(msgspec.structs.replace(feature, type=picture), path, resize)
    pixels = np.asarray(image.convert("RGB"), dtype=np.float64)
    if feature.type.dtype.is_float:
        pixels /= 255
    pixels = pixels.transpose(2, 0, 1) if is_first else pixels
    check_shape(feature, shape)
    scale = "0 to 1" if feature.type.dtype.is_float else "0 to 255"
    note = f"{_RESIZED[resize]} {width}×{height}; pixels from {scale}, which the file does not say"
    return pixels.reshape(shape).astype(feature.type.dtype.numpy), note


def _type(feature: Feature, value: Any) -> str:
    text = describe_feature(feature.type)
    is_array = isinstance(feature.type, ArrayFeature) and isinstance(value, np.ndarray)
    return f"{text}, given {describe_shape(value.shape)}" if is_array and "flex" in text else text
