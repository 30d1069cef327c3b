"""Text from data, files and errors, made safe for terminals and for HTML; and tables of it.

What a terminal shows passes through `printable`, HTML through `escape`. Colours follow the page.
"""

import codecs
import html
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

from momentron.certificate.picture import number

# what terminals without Unicode show instead of the characters that momentron uses itself
_PLAIN = {
    "×": "x",
    "∞": "inf",
    "√": "sqrt",
    "·": "*",
    "−": "-",
    "–": "-",
    "…": "...",
    "≤": "<=",
    "≥": ">=",
    "→": "->",
    "‖": "||",
    "½": "1/2",
    "²": "^2",
    "°": " degrees",
    "━": "=",
    "─": "-",
}


def printable(text: object) -> str:
    r"""The text with every character that is not seen written out.

    >>> printable("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    return "".join(c if c.isprintable() else _written_out(c) for c in str(text))


def in_encoding(text: str, encoding: str | None) -> str:
    r"""The text with the characters that an encoding lacks in ASCII, or written out.

    >>> in_encoding("3 × 2, é", "ascii")
    '3 x 2, \\xe9'
    """
    if encoding is None:
        return text
    return text.encode(encoding, "momentron.plain").decode(encoding)


def _written_out(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    """What stands for the characters that an encoding lacks, and where to go on."""
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end]
    return "".join(_PLAIN.get(c) or _written_out(c) for c in lacking), error.end


codecs.register_error("momentron.plain", _in_ascii)


def escape(text: object) -> str:
    """Text as HTML: nothing in it is markup, and no character is hidden.

    >>> escape("<b>\\x1b")
    '&lt;b&gt;\\\\x1b'
    """
    return html.escape(printable(text))


def facts_table(facts: Mapping[str, object]) -> str:
    """Names and values, two columns."""
    rows = "".join(
        f'<tr><th scope="row" style="text-align:left;font-weight:normal;opacity:0.8;'
        f'padding:1px 12px 1px 0">{escape(name)}</th>'
        f'<td style="text-align:left;padding:1px 0;overflow-wrap:anywhere">'
        f"{escape(value)}</td></tr>"
        for name, value in facts.items()
    )
    return f'<table style="border-collapse:collapse;font-size:inherit">{rows}</table>'


def rows_table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table with a head; numbers are on the right, floats with six digits."""
    sides = ["right" if isinstance(value, Real) else "left" for value in (rows or [names])[0]]
    head = _row('th scope="col"', names, sides)
    body = "".join(_row("td", row, sides) for row in rows)
    return (
        '<div style="overflow-x:auto" tabindex="0" role="region" aria-label="table">'
        '<table style="border-collapse:collapse;font-size:inherit">'
        f"<thead>{head}</thead><tbody>{body}</tbody></table></div>"
    )


def _row(tag: str, values: Sequence[Any], sides: Sequence[str]) -> str:
    cells = "".join(
        f'<{tag} style="padding:1px 10px 1px 0;text-align:{side}">'
        f"{escape(number(value) if isinstance(value, float) else value)}</{tag[:2]}>"
        for value, side in zip(values, sides, strict=True)
    )
    return f"<tr>{cells}</tr>"
