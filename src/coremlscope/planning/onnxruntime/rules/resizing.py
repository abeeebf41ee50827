"""Resize, whose conditions depend on each other."""

from __future__ import annotations

from collections.abc import Sequence

from coremlscope.planning.onnxruntime.case import Case
from coremlscope.planning.onnxruntime.rules.general import DEFAULT
from coremlscope.planning.onnxruntime.rules.rule import BUILDERS, NETWORK, PROGRAM, Condition, Operator, since

_SOURCE = f"{BUILDERS}/resize_op_builder.cc"
_ROUNDING = 1e-4
_SCALES, _SIZES = 2, 3


def _mode(case: Case) -> str:
    return case.text("mode", "nearest")


def _by_sizes(case: Case) -> bool:
    return bool(case.name(_SIZES))


def _rank(case: Case) -> bool:
    return 0 in case.dims(0) or (case.rank not in (3, 4, 5) if case.is_program else case.rank != 4)


def _form(case: Case) -> bool:
    return (
        case.number("antialias", 0) != 0
        or case.number("exclude_outside", 0) != 0
        or case.text("keep_aspect_ratio_policy", "stretch") != "stretch"
        or _mode(case) not in ("linear", "nearest")
    )


def _rounding(case: Case) -> bool:
    return _mode(case) == "nearest" and case.text("nearest_mode", "round_prefer_floor") != "floor"


def _amounts(case: Case) -> Sequence[float] | None:
    """Returns the constant sizes or scales; None if they are not constant."""
    if _by_sizes(case):
        return case.integers(_SIZES)
    return case.floats(_SCALES) if case.name(_SCALES) else None


def _not_constant(case: Case) -> bool:
    return not _amounts(case)


def _axes(case: Case) -> tuple[int, ...]:
    given = case.numbers("axes") or tuple(range(case.rank))
    return tuple(axis + case.rank if axis < 0 else axis for axis in given)


def _other_axes(case: Case) -> bool:
    amounts = _amounts(case) or ()
    for place, (axis, amount) in enumerate(zip(_axes(case), amounts, strict=False)):
        if axis >= case.rank - 2:
            continue
        # The provider compares a size with the dimension at its place in the list.
        if amount != (case.dims(0)[place] if _by_sizes(case) else 1.0):
            return True
    return False


def _scales(case: Case) -> bool:
    if _by_sizes(case):
        return False
    sizes, scales = case.dims(0)[-2:], (_amounts(case) or ())[-2:]
    if -1 in sizes or len(scales) < 2:
        return True
    if all(scale >= 1 for scale in scales):
        return any(scale != int(scale) for scale in scales)
    if any(scale > 1 for scale in scales) or not case.is_program:
        return True
    return any(not _divides(scale, size) for scale, size in zip(scales, sizes, strict=True))


def _divides(scale: float, size: int) -> bool:
    if not 0 < scale < 1:
        return False
    factor = round(1 / scale)
    return abs(1 / scale - factor) < _ROUNDING and size % factor == 0


def _multiples(case: Case) -> bool:
    if not _by_sizes(case):
        return False
    wanted = (_amounts(case) or ())[-2:]
    return (
        -1 in case.dims(0)
        or len(wanted) < 2
        or any(int(new) % old for new, old in zip(wanted, case.dims(0)[-2:], strict=True))
    )


def _coordinates(case: Case) -> bool:
    kind = case.text("coordinate_transformation_mode", "half_pixel")
    if not case.is_program or _mode(case) == "nearest":
        return kind != "asymmetric"
    if kind == "asymmetric":
        return not _by_sizes(case)
    if kind == "pytorch_half_pixel":
        return any(size <= 1 for size in _result(case))
    return kind not in ("half_pixel", "align_corners")


def _result(case: Case) -> list[float]:
    amounts = (_amounts(case) or ())[-2:]
    if _by_sizes(case):
        return [float(size) for size in amounts]
    return [int(size * scale) for size, scale in zip(case.dims(0)[-2:], amounts, strict=False)]


OPERATORS: tuple[Operator, ...] = (
    Operator(
        "Resize",
        since(),
        least_opset=11,
        types=DEFAULT,
        source=_SOURCE,
        conditions=(
            Condition(
                "resize-rank",
                _rank,
                "its input has another rank than 4 (MLProgram: 3 to 5), or is empty",
                "reshape it to rank 4",
            ),
            Condition(
                "resize-form",
                _form,
                "it is cubic, antialiased, excludes what is outside, or keeps the aspect ratio",
                "interpolate linearly or by nearest without these options",
            ),
            Condition(
                "resize-rounding",
                _rounding,
                "nearest_mode is not floor",
                "set nearest_mode to floor and coordinate_transformation_mode to asymmetric",
            ),
            Condition(
                "resize-constant",
                _not_constant,
                "its sizes or scales are not constants",
                "make the dimensions static, or give scales as an initializer",
            ),
            Condition(
                "resize-axes",
                _other_axes,
                "it resizes other axes than the last two, or compares with a free dimension",
                "make the batch static, or give scales instead of sizes",
            ),
            Condition(
                "resize-scales",
                _scales,
                "its scales are not whole numbers, or with MLProgram whole divisors of known sizes",
                "give sizes instead of scales, with MLProgram",
            ),
            Condition(
                "resize-multiples",
                _multiples,
                "its sizes are not multiples of static ones",
                "use the format MLProgram",
                formats=NETWORK,
            ),
            Condition(
                "resize-coordinates-network",
                _coordinates,
                "coordinate_transformation_mode is not asymmetric",
                "set it to asymmetric, or use the format MLProgram for linear interpolation",
                formats=NETWORK,
            ),
            Condition(
                "resize-coordinates",
                _coordinates,
                "coordinate_transformation_mode does not suit its mode",
                "nearest: asymmetric; linear: half_pixel or align_corners",
                formats=PROGRAM,
            ),
        ),
    ),
)
