"""Figures of a verdict as people read them: percentages, limits and interval bars.

The figures come as text with fixed digits. Nothing here estimates: values are scaled, rounded
away from the claim and placed on a line.
"""

from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal, InvalidOperation

from policies import ContrastVerdict, RateFigure
from reproduce.report.model import Arm

FIGURE_TITLES = {
    "p_established": "p of no higher rate under treatment",
    "p_established_worst": "the same at the worst reading of the unresolved",
    "p_excluded": "p of a difference as large as the smallest effect",
    "p_excluded_best": "the same at the best reading of the unresolved",
    "difference": "difference, treatment minus control",
    "difference_lower": "lower limit of the difference",
    "difference_upper": "upper limit of the difference",
    "difference_confidence": "confidence of each limit of the difference",
    "min_effect": "smallest effect of interest",
}
"""What the figures of a contrast are called; others are shown under their own name."""

_POINTS = ("difference", "difference_lower", "difference_upper", "min_effect")


def decimal_of(value: str) -> Decimal | None:
    """The number that the text spells, or `None` where it spells no finite number."""
    try:
        number = Decimal(value)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def percent(value: str, *, rounding: str = ROUND_HALF_EVEN) -> str:
    """A share as a percentage: one digit, more below one per cent; other text as it is."""
    digits = _digits(value, rounding)
    return f"{digits} %" if decimal_of(value) is not None else digits


def _digits(value: str, rounding: str) -> str:
    number = decimal_of(value)
    if number is None:
        return value
    scaled = 100 * number
    size = abs(scaled)
    places = 1 if size >= 1 or not size else 2 if size >= Decimal("0.1") else 3
    return f"{scaled.quantize(Decimal(1).scaleb(-places), rounding=rounding):f}"


def level(confidence: str) -> str:
    """A confidence as a percentage, rounded down to two digits, without needless ones."""
    number = decimal_of(confidence)
    if number is None:
        return confidence
    digits = f"{(100 * number).quantize(Decimal('0.01'), rounding=ROUND_FLOOR):f}"
    return f"{digits.rstrip('0').rstrip('.')} %"


def error_level(alpha: str) -> str:
    """An error rate as a percentage, with all the digits that were declared."""
    number = decimal_of(alpha)
    if number is None:
        return alpha
    # Shifted as text: arithmetic would round to the precision of a context.
    digits = f"{Decimal(f'{number:f}e2'):f}"
    shown = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return f"{shown} %"


def one_sided(confidence: str) -> str:
    """The confidence of each limit alone of a two-sided interval: half the error is its."""
    number = decimal_of(confidence)
    return confidence if number is None else level(str((1 + number) / 2))


def points(value: str, *, rounding: str = ROUND_HALF_EVEN) -> str:
    """A difference of two shares in percentage points, with its sign."""
    number = decimal_of(value)
    if number is None:
        return value
    rounded = number.quantize(Decimal("0.001"), rounding=rounding) + 0  # no minus before zero
    return f"{100 * rounded:+.1f} points"


def magnitude(value: str) -> str:
    """A difference that is not negative in percentage points, rounded up, without a sign."""
    return points(value, rounding=ROUND_CEILING).lstrip("+")


def above(rate: RateFigure) -> str:
    """The lower limit as a percentage, rounded down."""
    return percent(rate.lower, rounding=ROUND_FLOOR)


def below(rate: RateFigure) -> str:
    """The upper limit as a percentage, rounded up."""
    return percent(rate.upper, rounding=ROUND_CEILING)


def interval(rate: RateFigure | None) -> str:
    """Both limits of a rate in per cent, rounded outward."""
    if rate is None:
        return "not given"
    return f"{_digits(rate.lower, ROUND_FLOOR)}–{_digits(rate.upper, ROUND_CEILING)} %"


def difference(contrast: ContrastVerdict) -> str | None:
    """The difference with its limits and their confidence, or `None` where there is none."""
    value = contrast.figure("difference")
    if value is None:
        return None
    lower, upper = contrast.figure("difference_lower"), contrast.figure("difference_upper")
    limits = []
    if lower is not None:
        limits.append(f"at least {points(lower, rounding=ROUND_FLOOR)}")
    if upper is not None:
        limits.append(f"at most {points(upper, rounding=ROUND_CEILING)}")
    confidence = contrast.figure("difference_confidence")
    if limits and confidence is not None:
        limits.append(f"each one-sided at {level(confidence)}")
    return f"{points(value)} ({', '.join(limits)})" if limits else points(value)


def limits(contrast: ContrastVerdict) -> str | None:
    """Both limits of the difference in a few words, or `None` where one is not given."""
    lower, upper = contrast.figure("difference_lower"), contrast.figure("difference_upper")
    if lower is None or upper is None:
        return None
    low = points(lower, rounding=ROUND_FLOOR).removesuffix(" points")
    return f"difference {low} to {points(upper, rounding=ROUND_CEILING)}"


def labelled(contrast: ContrastVerdict) -> tuple[tuple[str, str], ...]:
    """All figures of a contrast as titles and values, in the order of the policy."""
    return tuple(
        (
            FIGURE_TITLES.get(figure.name, figure.name.replace("_", " ")),
            _value(figure.name, figure.value),
        )
        for figure in contrast.figures
    )


def _value(name: str, value: str) -> str:
    if name in _POINTS:
        return points(value)
    return level(value) if name == "difference_confidence" else value


def bar(arm: Arm, *, width: int, unicode: bool = True) -> str:
    """The interval of a rate on a line from 0 to 100 %, the rate marked; a full line is 100 %.

    Without an interval only the share of matches is marked; without valid trials nothing is.
    """
    dot, left, line, right, mark = "·├─┤■" if unicode else ".|-|#"
    cells = [dot] * width
    if arm.rate is not None:
        low, high = decimal_of(arm.rate.lower), decimal_of(arm.rate.upper)
        if low is not None and high is not None:
            first, last = _cell(low, width), _cell(high, width)
            cells[first : last + 1] = [line] * (last + 1 - first)
            cells[first], cells[last] = left, right
    if arm.tally.valid:
        cells[_cell(Decimal(arm.tally.matched) / arm.tally.valid, width)] = mark
    return "".join(cells)


def _cell(share: Decimal, width: int) -> int:
    return max(0, min(width - 1, int(share * width)))
