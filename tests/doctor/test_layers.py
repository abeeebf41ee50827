"""The reason that a message passes on."""

from __future__ import annotations

import pytest

from coremlscope.studies.doctor.log import find_reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("something plain", "something plain"),
        (
            "2022-12-03 19:01:04.702382-0500 Hyperpaint[555:11322] [coreml] Error plan build: -1.",
            "Error plan build: -1.",
        ),
        ("ANECF error: Program load failure (0x20004)", "Program load failure (0x20004)"),
        (
            'Error compiling model: "Error reading protobuf spec. validator error: Layer a has 2 inputs."',
            "Layer a has 2 inputs.",
        ),
        ("[espresso] [Espresso::handle_ex_plan] exception=Invalid dst shape1 x 1", "Invalid dst shape1 x 1"),
        (
            'compiler error:  Espresso exception: "Invalid blob shape": Cannot broadcast blobs".',
            "Cannot broadcast blobs",
        ),
        (
            'Error Domain=com.apple.vis Code=3 "outer" UserInfo={NSLocalizedDescription=outer,'
            ' NSUnderlyingError=0x1c42 {Error Domain=com.apple.CoreML Code=1 "inner"'
            " UserInfo={NSLocalizedDescription=inner}}}",
            "inner",
        ),
        (
            'Error Domain=a Code=1 "outer" UserInfo={NSUnderlyingError=0x1 {Error Domain=b Code=2 "inner"}, '
            "NSLocalizedDescription=outer}",
            "inner",
        ),
        ('NSUnderlyingError = "Error Domain=com.apple.CoreML Code=110 \\"(null)\\"";', ""),
        (
            "Non-zero status code returned while running 1_CoreML_3 node. Name:'CoreMLExecutionProvider_1'"
            " Status Message: Error executing model: In short, no.",
            "In short, no.",
        ),
        (
            "E5RT encountered an STL exception. msg = unordered_map::at: key not found.",
            "unordered_map::at: key not found.",
        ),
    ],
)
def test_the_innermost_reason(text: str, reason: str) -> None:
    assert find_reason(text).rstrip('".') == reason.rstrip('".')
