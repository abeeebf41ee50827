"""Versions of iOS, macOS and visionOS, and their common scale."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from coremlscope.base.errors import UsageError
from coremlscope.devices.chip_files import newest_system

Platform = Literal["iOS", "macOS", "visionOS"]

_PLATFORMS: dict[str, Platform] = {"ios": "iOS", "ipados": "iOS", "macos": "macOS", "visionos": "visionOS"}

#: The iOS version released together with each macOS version up to 15. From 26 on the numbers are equal.
_IOS_OF_MACOS = {11: 14, 12: 15, 13: 16, 14: 17, 15: 18}
#: The iOS version released together with each visionOS version before 26.
_IOS_OF_VISIONOS = {1: 17, 2: 18}
#: The first version with the same number on all platforms.
_UNIFIED = 26
#: Major versions that exist for iOS but not for macOS.
ONLY_IOS = (16, 17, 18)
#: The first iOS version with Core ML.
_OLDEST = 11


class OSRelease(msgspec.Struct, frozen=True):
    """A version of iOS (iPadOS counts as iOS), macOS or visionOS.

    Attributes:
        platform: `iOS`, `macOS` or `visionOS`.
        major: The first number: 14 for macOS 14.5.
        minor: The second number: 5 for macOS 14.5.
    """

    platform: Platform
    major: int
    minor: int = 0

    @property
    def core_ml(self) -> tuple[int, int]:
        """The equivalent iOS version, by which versions of Core ML are compared: (17, 5) for macOS 14.5."""
        same_year = {"macOS": _IOS_OF_MACOS, "visionOS": _IOS_OF_VISIONOS}.get(self.platform, {})
        return same_year.get(self.major, self.major), self.minor

    def __str__(self) -> str:
        return f"{self.platform} {self.major}{f'.{self.minor}' if self.minor else ''}"


def ios(major: int, minor: int = 0) -> OSRelease:
    """Creates a version of iOS."""
    return OSRelease("iOS", major, minor)


def macos(major: int, minor: int = 0) -> OSRelease:
    """Creates a version of macOS."""
    return OSRelease("macOS", major, minor)


def platform_named(word: str) -> Platform:
    """Returns the platform with a name: `iOS` for `ipados`; raises KeyError for others."""
    return _PLATFORMS[word.lower()]


def parse_release(text: str, platform: Platform) -> OSRelease:
    """Parses a version: `18`, `15.2`, `macOS 14.5`, `ios17`.

    Args:
        text: The text.
        platform: The platform of the device. The text may name it or not. It may name another platform only
            from version 26 on, where the numbers are the same.

    Raises:
        UsageError: The text is not a version of this platform, or the version is unknown.
    """
    match = re.fullmatch(
        r"\s*(ios|ipados|macos|visionos)?\s*-?v?(\d{1,3})(?:\.(\d{1,3}))?(?:\.\d{1,3})?\s*", text, re.I
    )
    if match is None:
        raise UsageError(
            f"invalid {platform} version {text!r}", f"use a version such as {_example(platform)}"
        )
    named, major, minor = match.group(1), int(match.group(2)), int(match.group(3) or 0)
    given = platform if named is None else platform_named(named)
    if given != platform and major < _UNIFIED:
        raise UsageError(
            f"the device runs {platform}, not {given}", f"use a version such as {_example(platform)}"
        )
    known = _known(platform)
    if major not in known:
        mac = {ios: macos for macos, ios in _IOS_OF_MACOS.items()}.get(major)
        near = mac if platform == "macOS" and mac else min(known, key=lambda one: abs(one - major))
        raise UsageError(
            f"unknown {platform} version {major}",
            f"did you mean {platform} {near}? known versions: {', '.join(map(str, known))}",
        )
    return OSRelease(platform, major, minor)


def _known(platform: Platform) -> list[int]:
    unified = range(_UNIFIED, newest_system() + 1)
    if platform == "macOS":
        return [*_IOS_OF_MACOS, *unified]
    if platform == "visionOS":
        return [*_IOS_OF_VISIONOS, *unified]
    return [*range(_OLDEST, 19), *unified]


def _example(platform: Platform) -> str:
    return {"macOS": "14.5 or 26", "iOS": "17.2 or 26", "visionOS": "2.1 or 26"}[platform]
