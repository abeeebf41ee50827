"""Which operating systems a model needs."""

from __future__ import annotations

from collections.abc import Mapping

#: The first systems that read each version of the specification: iOS, macOS, watchOS, tvOS, visionOS.
#: (Source: the version table in the comment of `Model.proto` and coremltools' `_SPECIFICATION_VERSION_*`.)
_PLATFORMS: Mapping[int, tuple[str, ...]] = {
    # Core AI models have no version. (Source: the compatibility that coreai-core 1.0.0b3 tells for them.)
    0: ("iOS 27", "macOS 27"),
    1: ("iOS 11", "macOS 10.13", "watchOS 4", "tvOS 11"),
    2: ("iOS 11.2", "macOS 10.13.2", "watchOS 4.2", "tvOS 11.2"),
    3: ("iOS 12", "macOS 10.14", "watchOS 5", "tvOS 12"),
    4: ("iOS 13", "macOS 10.15", "watchOS 6", "tvOS 13"),
    5: ("iOS 14", "macOS 11", "watchOS 7", "tvOS 14"),
    6: ("iOS 15", "macOS 12", "watchOS 8", "tvOS 15"),
    7: ("iOS 16", "macOS 13", "watchOS 9", "tvOS 16"),
    8: ("iOS 17", "macOS 14", "watchOS 10", "tvOS 17"),
    9: ("iOS 18", "macOS 15", "watchOS 11", "tvOS 18", "visionOS 2"),
    10: ("iOS 26", "macOS 26", "watchOS 26", "tvOS 26", "visionOS 26"),
}

#: The names of operation sets in MIL text, by those in programs.
PRINTED_OPSETS = {
    "CoreML5": "ios15",
    "CoreML6": "ios16",
    "CoreML7": "ios17",
    "CoreML8": "ios18",
    "CoreML9": "ios26",
}
READ_OPSETS = {printed: name for name, printed in PRINTED_OPSETS.items()}
#: Operation sets of the first compilers, which printed the earlier dialect.
EARLY_OPSETS = ("CoreML5", "CoreML6", "CoreML7")
#: The specification version that introduced each operation set. (Source: coremltools' `_OPSET`.)
_OPSETS = {"CoreML5": 6, "CoreML6": 7, "CoreML7": 8, "CoreML8": 9, "CoreML9": 10}
NEWEST_VERSION = max(_OPSETS.values())
#: Operations that the first opset does not contain. (Source: coremltools 9.0, `SSAOpRegistry.core_ops`.)
_LATER_OPS: Mapping[str, tuple[str, ...]] = {
    "CoreML6": (
        *("constexpr_affine_dequantize", "constexpr_cast", "constexpr_lut_to_dense"),
        *("constexpr_sparse_to_dense", "fill_like", "reshape_like", "pixel_unshuffle"),
    ),
    "CoreML7": ("resize", "quantize", "dequantize"),
    "CoreML8": (
        *("constexpr_blockwise_shift_scale", "constexpr_lut_to_sparse"),
        *("constexpr_sparse_blockwise_shift_scale", "read_state", "write_state", "slice_update"),
        "scaled_dot_product_attention",
    ),
}
_OPSET_OF = {name: opset for opset, names in _LATER_OPS.items() for name in names}


def describe_platforms(spec_version: int) -> str:
    """Returns the oldest systems for a specification version: `iOS 16, macOS 13, watchOS 9, tvOS 16`.

    A version below 0, that of models of other frameworks, has none.
    """
    if spec_version < 0:
        return ""
    known = _PLATFORMS.get(spec_version)
    return ", ".join(known) if known else f"newer systems than are known here (version {max(_PLATFORMS)})"


def describe_opset(opset: str) -> str:
    """Returns the oldest iOS that supports an operation set; empty where that is unknown."""
    return _PLATFORMS[_OPSETS[opset]][0] if opset in _OPSETS else ""


def oldest_version(opset: str) -> int:
    """Returns the oldest specification version with an opset: 9 for `CoreML8`; 0 for an unknown one."""
    return _OPSETS.get(opset, 0)


def opset_of(op_type: str) -> str:
    """Returns the first opset with an operation; empty for those that every opset contains."""
    return _OPSET_OF.get(op_type, "")


def first_releases(spec_version: int) -> dict[str, str]:
    """Returns the first version of each system as Apple's compiler writes it: `{"iOS": "16.0", …}`.

    Mac Catalyst has the versions of iOS. Every version of visionOS reads the versions up to iOS 17's.
    """
    known = [release.partition(" ") for release in _PLATFORMS.get(spec_version, ())]
    releases = {name: version if "." in version else f"{version}.0" for name, _, version in known}
    vision = {"visionOS": "1.0"} if spec_version else {}
    return {**vision, **releases, "macCatalyst": releases["iOS"]} if releases else {}


def first_release(spec_version: int, platform: str) -> tuple[int, int] | None:
    """Returns the first version of a system that reads a specification version, as major and minor number.

    Args:
        spec_version: The specification version.
        platform: `iOS`, `macOS`, `watchOS`, `tvOS` or `visionOS`.

    Returns:
        The version; None if the specification version is unknown, or none of the platform's is known for it.
    """
    version = first_releases(spec_version).get(platform)
    if version is None:
        return None
    major, minor, *_ = version.split(".")
    return int(major), int(minor)
