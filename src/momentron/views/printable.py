"""Text from files, labels and errors, made safe to print on a terminal."""

import codecs
import unicodedata

# control characters and lone surrogates, and what changes the direction of the text around it
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


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
    text = str(text)
    if text.isprintable():
        return text
    return "".join(_written_out(c) if unicodedata.category(c) in _HIDDEN else c for c in text)


def shortened(text: object, most: int = 40) -> str:
    """The text, cut where it is too long for its place.

    >>> shortened("a very long name", 8)
    'a very …'
    """
    words = str(text)
    return words if len(words) <= most else words[: most - 1] + "…"


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
