"""A proven interval as text and as a picture, for notebooks and reports.

Part of the kernel of trust, since digits that are shown as proven must be: ends round outward.
Only numbers come in; words are HTML that the caller has escaped.
"""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

ACCENT = "#0072B2"  # at least 3:1 against both white and #121212
WIDTH, HEIGHT, BASE, THICK = 340.0, 46.0, 15.0, 8.0  # of an interval's picture
LEFT, RIGHT = 8.0, 332.0
CHARACTER = 6.9  # pixels of a digit
NARROW = 3.0  # pixels below which an interval would not be seen
_DIGITS = Context(prec=1200)  # more than any float64 has, written out


def number(value: float, digits: int = 6) -> str:
    """A number as people write it.

    >>> number(-2.5), number(float("inf"))
    ('−2.5', '∞')
    """
    if math.isinf(value):
        return "∞" if value > 0.0 else "−∞"
    shown = f"{abs(value):.{digits}g}"
    return f"−{shown}" if value < 0.0 else shown


def outward(lower: float, upper: float) -> tuple[str, str]:
    """The ends of an interval, rounded outward, with two digits of its width.

    What is between the true ends is between these.

    >>> outward(0.70710671, 0.70710685)
    ('0.70710671', '0.70710685')
    >>> outward(1.2345678e-9, 1.2345679e-9)
    ('1.23456779e-9', '1.23456790e-9')
    """
    if not math.isfinite(upper) or lower == upper:
        return number(lower, 17), number(upper, 17)
    low, high = Decimal(lower), Decimal(upper)
    width = _DIGITS.subtract(high, low)
    exponent = max(width.adjusted() - 1, high.adjusted() - 16)
    shift = high.adjusted() if not -4 <= high.adjusted() < 6 else 0
    step = Decimal(1).scaleb(exponent - shift, _DIGITS)
    ends = []
    for end, rounding in ((low, ROUND_FLOOR), (high, ROUND_CEILING)):
        rounded = end.scaleb(-shift, _DIGITS).quantize(step, rounding, _DIGITS)
        ends.append(f"{rounded:f}" + (f"e{shift}" if shift else ""))
    return ends[0], ends[1]


def proven(lower: float, upper: float) -> str:
    """An interval as HTML, with the digits that both ends share in bold: these are proven."""
    low, high = outward(lower, upper)
    if lower == upper:
        return f"<b>{low}</b>"
    shared = 0
    if len(low) == len(high):
        shared = [a == b for a, b in zip(low, high, strict=True)].index(False)
    if not any(c.isdigit() for c in low[:shared].strip("0.")):
        return f"{low} … {high}"
    return " … ".join(f"<b>{end[:shared]}</b>{end[shared:]}" for end in (low, high))


def interval_svg(lower: float, upper: float) -> str:
    """An interval on the line from 0: margins below it are reached, those above it impossible."""
    is_open = not math.isfinite(upper)
    top = 1.15 * upper if 0.0 < upper < math.inf else max(2.0 * lower, 1.0)

    def place(value: float) -> float:
        return LEFT + (RIGHT - LEFT) * min(value / top, 1.0)

    start, end = place(lower), RIGHT if is_open else place(upper)
    if end - start < NARROW:
        start, end = max(LEFT, end - NARROW), max(LEFT + NARROW, end)
    middle = 0.5 * (start + end)
    low, high = outward(lower, upper)
    label = f"at least {low}" if is_open else low if lower == upper else f"{low} … {high}"
    label = label if upper > 0.0 else ""  # the 0 is written already
    half = 0.5 * CHARACTER * len(label)
    x = min(max(middle, LEFT + 10.0 + half), WIDTH - half)  # right of the 0, and within
    title = f"best margin between {low} and {high}"
    y, line = BASE - THICK / 2, f'y1="{BASE}" y2="{BASE}" stroke="currentColor"'
    return (
        f'<svg role="img" aria-label="{title}" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" '
        f'style="display:block;width:100%;max-width:{WIDTH:g}px;height:auto" '
        'font-size="11" font-family="inherit">'
        f'<line x1="{LEFT}" x2="{start:.1f}" {line} stroke-width="2"/>'
        f'<line x1="{end:.1f}" x2="{RIGHT}" {line} stroke-dasharray="2 4" opacity="0.6"/>'
        f'<line x1="{LEFT}" x2="{LEFT}" y1="{BASE - 5}" y2="{BASE + 5}" stroke="currentColor"/>'
        f'<rect x="{start:.1f}" y="{y}" width="{end - start:.1f}" height="{THICK}" rx="1.5" '
        f'fill="{ACCENT}"/>'
        f'<text x="{LEFT}" y="{BASE + 21}" fill="currentColor" text-anchor="middle">0</text>'
        f'<text x="{x:.1f}" y="{BASE + 21}" fill="currentColor" text-anchor="middle">{label}'
        "</text></svg>"
    )


def card(name: str, sentence: str, lower: float, upper: float, *more: str) -> str:
    """What a notebook shows: a sentence, the interval, and the rest where it is asked for.

    All words are HTML; `more` is shown in a part that opens on a click, without scripts.
    """
    return (
        '<div style="max-width:44em;line-height:1.45">'
        f"<div><strong>{name}</strong>: {sentence}</div>"
        f'<div style="margin:2px 0">Best margin: {proven(lower, upper)}</div>'
        f"{interval_svg(lower, upper)}"
        f'<details><summary style="cursor:pointer">details</summary>{"".join(more)}</details>'
        "</div>"
    )
