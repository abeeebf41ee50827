from __future__ import annotations

import re

import pytest

from coremlscope.base.errors import UsageError
from coremlscope.devices import (
    NEURAL_ENGINE,
    UNITS,
    OSRelease,
    all_chips,
    expand_names,
    find_device,
    ios,
    macos,
    parse_release,
    product_name,
)
from coremlscope.devices.chip_files import check_chip, newest_system

CHIPS = list(all_chips().values())
EXPECTED_IDS = [
    *("a12", "a13", "a14", "a15", "a16", "a17-pro", "a18", "a18-pro", "a19", "a19-pro", "a20-pro"),
    *("m1", "m1-pro", "m1-max", "m1-ultra", "m2", "m2-pro", "m2-max", "m2-ultra"),
    *("m3", "m3-pro", "m3-max", "m3-ultra", "m4", "m4-pro", "m4-max"),
    *("m5", "m5-pro", "m5-max", "m5-ultra", "m6"),
]


def test_families_are_complete_and_in_order() -> None:
    assert [chip.id for chip in CHIPS] == EXPECTED_IDS


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.id)
def test_every_number_has_a_source(chip) -> None:
    facts = [*(chip.units[unit] for unit in UNITS), chip.memory]
    named = [(name, fact) for part in facts for name, several in part.items() for fact in several]
    assert named
    for name, fact in named:
        assert fact.source, name
        assert fact.kind in (
            *("marketed", "measured", "theoretical", "derived", "published", "press", "static analysis"),
        )
        assert fact.value > 0
        assert name in (
            *("cores", "generation", "performance_cores", "performance_clusters"),
            *("efficiency_cores", "matrix_speedup", "dual_speedup"),
        ) or name.endswith(("_OPps", "_FLOPps", "_Bps", "_Hz", "_bytes", "_s"))


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.id)
def test_chips_have_a_platform_and_a_neural_engine(chip) -> None:
    assert chip.id.startswith(chip.family)
    assert chip.platform in chip.releases
    assert chip.value(NEURAL_ENGINE, "cores") in (8, 16, 32)
    assert 11 <= chip.neural_engine_generation <= 19
    assert chip.value(NEURAL_ENGINE, "no such number") is None


def test_variants_share_a_generation() -> None:
    generations = {chip.family: chip.neural_engine_generation for chip in CHIPS}
    assert all(generations[chip.family] == chip.neural_engine_generation for chip in CHIPS)
    assert generations["m1"] == generations["a14"]
    assert generations["m4"] == generations["a17"]


@pytest.mark.parametrize(
    ("typed", "release", "chip", "os"),
    [
        ("m1", "14.5", "m1", macos(14, 5)),
        ("M1 Max", None, "m1-max", macos(27)),
        ("iphone-15-pro", "18", "a17-pro", ios(18)),
        ("iPhone 15 Pro", "iOS 17.2", "a17-pro", ios(17, 2)),
        ("iphone15pro", None, "a17-pro", ios(27)),
        ("iPhone XS", None, "a12", ios(18)),
        ("MacBook Air 13-inch (M3)", "15", "m3", macos(15)),
        ("iPad Pro 11-inch (M4)", "18", "m4", ios(18)),
        ("m4", "18", "m4", ios(18)),
        ("m4", "ios26", "m4", ios(26)),
        ("m4", "26", "m4", macos(26)),
        ("Apple M2", "macOS 13.1.2", "m2", macos(13, 1)),
        ("A12 Bionic", "14", "a12", ios(14)),
        ("Apple Vision Pro (M2)", None, "m2", OSRelease("visionOS", 27)),
        ("vision-pro-m5", "26.1", "m5", OSRelease("visionOS", 26, 1)),
        ("m2", "visionOS 2", "m2", OSRelease("visionOS", 2)),
    ],
)
def test_devices_are_found_by_name(typed: str, release: str | None, chip: str, os) -> None:
    device = find_device(typed, release)
    assert (device.chip.id, device.os) == (chip, os)


def test_releases_have_a_common_scale() -> None:
    assert macos(14, 5).core_ml == (17, 5)
    assert macos(15).core_ml == ios(18).core_ml
    assert macos(26, 1).core_ml == ios(26, 1).core_ml
    assert OSRelease("visionOS", 1, 2).core_ml == (17, 2)
    assert OSRelease("visionOS", 26).core_ml == (26, 0)
    assert str(macos(14, 5)) == "macOS 14.5"
    assert str(ios(18)) == "iOS 18"


@pytest.mark.parametrize(
    ("typed", "release", "message", "hint"),
    [
        ("ipone-15-pro", None, "unknown device 'ipone-15-pro'", "did you mean iPhone 15 Pro"),
        ("Apple Vision Pro", None, "unknown device 'Apple Vision Pro'", "Vision Pro (M5) or Vision Pro (M2)"),
        ("m4", "visionOS 26 beta", "invalid macOS version", "14.5"),
        ("m4", "visionOS 2", "the device runs macOS, not visionOS", "14.5"),
        ("vision pro m5", "2", "Vision Pro (M5) does not support visionOS 2", "visionOS 26"),
        ("vision pro m2", "3", "unknown visionOS version 3", "did you mean visionOS 2?"),
        ("m7", None, "unknown device 'm7'", "`coremlscope devices` lists them"),
        ("", None, "unknown device ''", "`coremlscope devices`"),
        ("m1", "99", "unknown macOS version 99", "did you mean macOS 27?"),
        ("m1-max", "18", "unknown macOS version 18", "did you mean macOS 15?"),
        ("m1", "eighteen", "invalid macOS version 'eighteen'", "14.5"),
        ("iphone-16", "macOS 15", "the device runs iOS, not macOS", "17.2"),
        ("iphone-16", "17", "iPhone 16 does not support iOS 17", "iOS 18"),
        ("iphone xs", "26", "iPhone XS does not support iOS 26", "iOS 18"),
    ],
)
def test_invalid_names_and_versions(typed: str, release: str | None, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        find_device(typed, release)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_other_platform_is_accepted_from_version_26() -> None:
    assert parse_release("macOS 26", "iOS") == ios(26)


def test_a_device_is_named_by_its_identifier() -> None:
    products = [product for chip in all_chips().values() for product in chip.products]
    identifiers = [identifier for product in products for identifier in product.identifiers]
    assert len(identifiers) == len(set(identifiers))
    assert all(re.fullmatch(r"(iPhone|iPad)\d+,\d+", identifier) for identifier in identifiers)
    assert {p.name for p in products if p.name.startswith("iPhone")} == {
        p.name for p in products if p.name.startswith("iPhone") and p.identifiers
    }
    assert product_name("iPhone16,1") == "iPhone 15 Pro"
    assert product_name("iPhone99,1") == ""


def test_names_of_groups_stand_for_their_chips() -> None:
    assert set(expand_names(["every"])) == set(all_chips())
    current = expand_names(["m1", "all-current", "m5"])
    assert current[0] == "m1"
    assert len(set(current)) == len(current)
    newest = {"A": max(int(c.family[1:]) for c in all_chips().values() if c.family.startswith("a"))}
    newest["M"] = max(int(c.family[1:]) for c in all_chips().values() if c.family.startswith("m"))
    families = {all_chips()[name].family for name in current[1:]}
    assert families == {f"{line.lower()}{last - older}" for line, last in newest.items() for older in (0, 1)}
    assert expand_names(["m1", "iPhone 15"]) == ("m1", "iPhone 15")


@pytest.mark.parametrize("name", ["all", "ALL", "Every", "all_current", "current"])
def test_names_similar_to_groups_name_the_groups(name: str) -> None:
    with pytest.raises(UsageError, match=f"unknown device '{name}'") as caught:
        expand_names(["m1", name])
    assert "every for all chips, or all-current for the newest ones" in caught.value.hint


def test_no_device_is_taken_for_a_group() -> None:
    names = [p.name for chip in all_chips().values() for p in chip.products]
    names += [name for chip in all_chips().values() for name in (chip.id, chip.name)]
    assert expand_names(names) == tuple(dict.fromkeys(names))


@pytest.mark.parametrize(
    ("written", "chip"),
    [
        *(("iPhone12,8", "a13"), ("iphone-se-2", "a13"), ("iPhone SE 3rd gen", "a15"), ("iphonese2", "a13")),
        *(("iPhone16,1", "a17-pro"), ("A17", "a17-pro"), ("A20", "a20-pro"), ("A15 Bionic", "a15")),
        *(("MacBook Air M2", "m2"), ("M2 MacBook Air", "m2"), ("mac mini m4", "m4"), ("iMac M1", "m1")),
        *(
            ("MacBook Pro 16 M1 Max", "m1-max"),
            ("Mac Studio M2 Ultra", "m2-ultra"),
            ("M3 Pro chip", "m3-pro"),
        ),
        *(("iPad mini 6", "a15"), ("iPad Pro M4", "m4"), ("iphone 15 pro max", "a17-pro")),
    ],
)
def test_devices_as_people_write_them(written: str, chip: str) -> None:
    assert find_device(written).chip.id == chip


@pytest.mark.parametrize("written", ["macbook", "iphone", "iPhone 99", "vision pro", "pro", "se"])
def test_a_name_of_several_chips_is_refused(written: str) -> None:
    with pytest.raises(UsageError):
        find_device(written)


def _table() -> dict[str, object]:
    fact = {"value": 16, "source": "someone", "kind": "measured"}
    return {
        "id": "m9",
        "name": "M9",
        "family": "m9",
        "platform": "macOS",
        "releases": {"macOS": 28, "source": "Apple"},
        "neural_engine": {"generation": [fact]},
    }


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, ""),
        ({"name": None}, "name is missing"),
        ({"neural_engine": {}}, "generation"),
        ({"releases": {"macOS": 28}}, "releases"),
        ({"releases": {"iOS": 28, "source": "Apple"}}, "first macOS"),
        ({"npu": {}}, "unknown table 'npu'"),
        (
            {"gpu": {"core": [{"value": 8, "source": "someone", "kind": "measured"}]}},
            "unknown number gpu.core",
        ),
        ({"gpu": {"cores": [{"value": 8, "source": "", "kind": "measured"}]}}, "gpu.cores needs"),
        ({"gpu": {"cores": [{"value": 0, "source": "someone", "kind": "measured"}]}}, "gpu.cores needs"),
    ],
)
def test_the_file_of_a_chip_is_checked_as_a_whole(change: dict[str, object], said: str) -> None:
    problems = list(check_chip({**_table(), **change}))
    assert bool(problems) == bool(said)
    assert said in "; ".join(problems)


def test_the_newest_system_is_that_of_the_newest_chips() -> None:
    assert newest_system() == max(version for chip in CHIPS for version in chip.releases.values())
    assert find_device("m6").os.major == newest_system()
