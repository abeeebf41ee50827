"""Reading of all chips from `chips/*.toml`, and lookup of devices by name."""

from __future__ import annotations

import difflib
import functools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from coremlscope.base.errors import UsageError
from coremlscope.devices.chip import Chip, Device, Fact, Facts, Product
from coremlscope.devices.chip_files import chip_tables, newest_system
from coremlscope.devices.release import ONLY_IOS, OSRelease, Platform, parse_release
from coremlscope.devices.unit import UNITS

#: Names that stand for several chips: all of them, and the newest two generations of phones and of Macs.
_EVERY, _CURRENT = "every", "all-current"
_GENERATIONS = 2
#: Where no device is named: a phone and a Mac of this year, of two and of five years ago (Apple, newsroom:
#: introduced in 2026, 2024 and 2021).
DEFAULT_DEVICES = (
    *("iPhone 18 Pro", "Mac mini (M6)"),
    *("iPhone 16", "Mac mini (M4)"),
    *("iPhone 13", "iMac 24-inch (M1)"),
)
#: Words of names that say nothing by themselves.
_DIGIT = re.compile(r"\d")
_UNTOLD = ("apple", "generation", "gen", "inch", "bionic", "chip", "the")
_SUGGESTIONS = 3
#: Names with a lower similarity are not suggested.
_SIMILARITY = 0.5
_GROUP_SIMILARITY = 0.7
#: Longer names are cut in messages.
_LONGEST_NAME = 100


@functools.cache
def all_chips() -> Mapping[str, Chip]:
    """Returns every chip by id, older chips first, A before M."""
    return {chip.id: chip for chip in sorted(map(_chip, chip_tables()), key=_age)}


def expand_names(names: Iterable[str]) -> tuple[str, ...]:
    """Replaces `every` and `all-current` by the ids of their chips; a name is kept once.

    Raises:
        UsageError: A name is no device but similar to one of these, such as `all`.
    """
    chips = all_chips().values()
    generations: dict[str, list[str]] = {}
    for chip in chips:
        line = generations.setdefault(chip.family[0], [])
        if chip.family not in line:
            line.append(chip.family)
    newest = {family for line in generations.values() for family in line[-_GENERATIONS:]}
    groups = {
        _EVERY: [chip.id for chip in chips],
        _CURRENT: [chip.id for chip in chips if chip.family in newest],
    }
    found: dict[str, None] = {}
    for name in names:
        if name not in groups:
            _check_similarity(name)
        found.update(dict.fromkeys(groups.get(name, [name])))
    return tuple(found)


def _check_similarity(name: str) -> None:
    wanted = _normalized(name)
    words = ("all", *map(_normalized, (_EVERY, _CURRENT)))
    if wanted not in _by_name() and difflib.get_close_matches(wanted, words, cutoff=_GROUP_SIMILARITY):
        raise UsageError(
            f"unknown device {name[:_LONGEST_NAME]!r}",
            f"use {_EVERY} for all chips, or {_CURRENT} for the newest ones;"
            " `coremlscope devices` lists them",
        )


def product_name(identifier: str) -> str:
    """Returns Apple's name of the device with an identifier such as `iPhone16,1`; empty if it is unknown."""
    products = (product for chip in all_chips().values() for product in chip.products)
    return next((product.name for product in products if identifier in product.identifiers), "")


def _age(chip: Chip) -> tuple[str, int, int]:
    variants = ("", "pro", "max", "ultra")
    return chip.family[0], int(chip.family[1:]), variants.index(chip.id.partition("-")[2])


def find_device(name: str, os: str | None = None) -> Device:
    """Finds a device by its name or by its chip's name, and sets its operating system version.

    Args:
        name: `m1`, `M1 Max`, `iphone-15-pro`, `MacBook Air 13-inch (M3)`; case and punctuation are ignored.
        os: The version, as `parse_release` accepts it; by default the newest one that the device supports.

    Raises:
        UsageError: The device is unknown, or it does not support the version.
    """
    chip, product = _find(name)
    platform = product.platform if product else _platform(chip, os)
    last = product.last_release if product else None
    release = parse_release(os, platform) if os else OSRelease(platform, last or newest_system())
    first = chip.releases[platform]
    shown = product.name if product else chip.name
    if release.major < first:
        hint = f"the first supported version is {platform} {first}"
        raise UsageError(f"{shown} does not support {release}", hint)
    if last is not None and release.major > last:
        hint = f"the last supported version is {platform} {last}"
        raise UsageError(f"{shown} does not support {release}", hint)
    return Device(chip, release, shown)


def find_devices(names: str | Sequence[str], os: str | None = None) -> list[Device]:
    """Returns the devices of one name or several, with groups of devices expanded.

    Raises:
        UsageError: A device or the version of a system is unknown.
    """
    return [find_device(name, os) for name in expand_names([names] if isinstance(names, str) else names)]


def _platform(chip: Chip, os: str | None) -> Platform:
    """Chooses the platform of a chip: iOS or visionOS if it runs that and the version is one of it."""
    named = re.match(r"\s*(ios|ipados|macos|visionos)?\s*(\d+)", os or "", re.IGNORECASE)
    word, major = ((named.group(1) or "").lower(), int(named.group(2))) if named else ("", 0)
    if word == "visionos" and "visionOS" in chip.releases:
        return "visionOS"
    if named is None or "iOS" not in chip.releases or chip.platform == "iOS":
        return chip.platform
    is_ios = word in ("ios", "ipados") or (not word and major in ONLY_IOS)
    return "iOS" if is_ios else "macOS"


@functools.cache
def _by_name() -> Mapping[str, tuple[Chip, Product | None]]:
    """Returns every chip and every product with its chip, by normalized name."""
    known: dict[str, tuple[Chip, Product | None]] = {}
    for chip in all_chips().values():
        known.update((_normalized(product.name), (chip, product)) for product in chip.products)
        known[_normalized(chip.name)] = chip, None
    return known


def _find(name: str) -> tuple[Chip, Product | None]:
    known = _by_name()
    wanted = _normalized(name).removeprefix("apple").removesuffix("bionic")
    if wanted in known:
        return known[wanted]
    meant = _find_meant(name)
    if meant is not None:
        return meant
    near = difflib.get_close_matches(wanted, known, n=_SUGGESTIONS, cutoff=_SIMILARITY)
    suggestions = " or ".join(
        product.name if product else chip.id for chip, product in map(known.__getitem__, near)
    )
    hint = "`coremlscope devices` lists them"
    raise UsageError(
        f"unknown device {name[:_LONGEST_NAME]!r}", f"did you mean {suggestions}? {hint}" if near else hint
    )


def _find_meant(name: str) -> tuple[Chip, Product | None] | None:
    """Returns the chip or product that a name means: by Apple's identifier, or by words of its name.

    Of several products with all of the words, those with the fewest others are meant, if they have one chip:
    `MacBook Air M2` is either size.
    """
    for chip in all_chips().values():
        for product in chip.products:
            if name.strip().casefold() in map(str.casefold, product.identifiers):
                return chip, product
    asked = _words(name)
    found: dict[int, list[tuple[Chip, Product | None]]] = {}
    for chip in all_chips().values():
        for one in (None, *chip.products):
            words = _words(one.name if one else chip.name)
            if "".join(asked) == "".join(words):
                return chip, one
            # A word such as `MacBook` alone means no particular device.
            if any(map(_DIGIT.search, asked)) and Counter(asked) <= Counter(words):
                found.setdefault(len(words) - len(asked), []).append((chip, one))
    nearest = found[min(found)] if found else []
    return nearest[0] if len({chip.id for chip, _ in nearest}) == 1 else None


def _words(name: str) -> list[str]:
    """Returns the words of a name; `(2nd generation)` is `2`, and `13-inch` is `13`."""
    words = re.findall(r"[a-z]+\d*|\d+(?:st|nd|rd|th)?", name.casefold())
    told = (re.sub(r"(?<=\d)(st|nd|rd|th)$", "", word) for word in words)
    return [word for word in told if word not in _UNTOLD]


def _normalized(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.casefold())


def _chip(table: Mapping[str, Any]) -> Chip:
    releases = {key: value for key, value in table["releases"].items() if key in get_args(Platform)}
    return Chip(
        id=table["id"],
        name=table["name"],
        family=table["family"],
        platform=table["platform"],
        units={unit: _facts(table.get(unit, {})) for unit in UNITS},
        memory=_facts(table.get("memory", {})),
        releases=releases,
        products=tuple(_product(device) for device in table.get("devices", ())),
    )


def _product(table: Mapping[str, Any]) -> Product:
    return Product(**{**table, "identifiers": tuple(table.get("identifiers", ()))})


def _facts(section: Mapping[str, Any]) -> Facts:
    return {name: tuple(Fact(**entry) for entry in entries) for name, entries in section.items()}
