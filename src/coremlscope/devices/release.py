"""Versions of operating systems, on one scale."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from coremlscope.errors import UsageError

__all__ = ["NEWEST", "ONLY_IOS", "OSRelease", "Platform", "ios", "macos", "parse_release"]

Platform = Literal["iOS", "macOS"]

#: The iOS that came out with each macOS up to 15; from 26 on both have the same number.
_IOS_OF_MACOS = {11: 14, 12: 15, 13: 16, 14: 17, 15: 18}
#: One number for both platforms since this one.
_UNIFIED = 26
#: The newest version for which anything is published.
NEWEST = 27
#: Versions that iOS had and macOS never had.
ONLY_IOS = (16, 17, 18)
#: The first iOS with Core ML.
_OLDEST = 11


@dataclass(frozen=True, slots=True)
class OSRelease:
    """A version of iOS (iPadOS counts as iOS) or macOS.

    Attributes:
        platform: `iOS` or `macOS`.
        major: As people say it: macOS 14.5 has 14.
        minor: The second number.
    """

    platform: Platform
    major: int
    minor: int = 0

    @property
    def core_ml(self) -> tuple[int, int]:
        """The version on iOS's scale, by which versions of Core ML compare: macOS 14.5 is (17, 5)."""
        if self.platform == "macOS":
            return _IOS_OF_MACOS.get(self.major, self.major), self.minor
        return self.major, self.minor

    def __str__(self) -> str:
        return f"{self.platform} {self.major}{f'.{self.minor}' if self.minor else ''}"


def ios(major: int, minor: int = 0) -> OSRelease:
    """A version of iOS."""
    return OSRelease("iOS", major, minor)


def macos(major: int, minor: int = 0) -> OSRelease:
    """A version of macOS."""
    return OSRelease("macOS", major, minor)


def parse_release(text: str, platform: Platform) -> OSRelease:
    """A version as it is typed: `18`, `15.2`, `macOS 14.5`, `ios17`.

    Args:
        text: What was typed.
        platform: The platform of the device, meant where the text names none. A name of the other platform
            is taken at its word where the numbers agree from 26 on, and refused before.

    Raises:
        UsageError: It is no version of this platform.
    """
    match = re.fullmatch(
        r"\s*(ios|ipados|macos)?\s*-?v?(\d{1,3})(?:\.(\d{1,3}))?(?:\.\d{1,3})?\s*", text, re.I
    )
    if match is None:
        raise UsageError(f"{text!r} is not a version of {platform}", f"write it as {_example(platform)}")
    named, major, minor = match.group(1), int(match.group(2)), int(match.group(3) or 0)
    given: Platform = platform if named is None else "macOS" if named.lower() == "macos" else "iOS"
    if given != platform and major < _UNIFIED:
        raise UsageError(f"the device runs {platform}, not {given}", f"write it as {_example(platform)}")
    known = _known(platform)
    if major not in known:
        mac = {ios: macos for macos, ios in _IOS_OF_MACOS.items()}.get(major)
        near = mac if platform == "macOS" and mac else min(known, key=lambda one: abs(one - major))
        raise UsageError(
            f"there is no {platform} {major} with Core ML that is known",
            f"did you mean {platform} {near}? known are {', '.join(map(str, known))}",
        )
    return OSRelease(platform, major, minor)


def _known(platform: Platform) -> list[int]:
    if platform == "macOS":
        return [*_IOS_OF_MACOS, _UNIFIED, NEWEST]
    return [*range(_OLDEST, 19), _UNIFIED, NEWEST]


def _example(platform: Platform) -> str:
    return "14.5 or 26" if platform == "macOS" else "17.2 or 26"
