"""Sounds as inputs: WAV files become the samples that an array takes."""

from __future__ import annotations

import math
import wave
from pathlib import Path

import numpy as np

from coremlscope.base.errors import InputError
from coremlscope.model.features import check_shape
from coremlscope.model.ir import Array, ArrayFeature, Feature, default_shape

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
