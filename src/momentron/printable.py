"""Text from files, labels and errors, made safe to print on a terminal."""

import unicodedata

# control characters and lone surrogates, and what changes the direction of the text around it
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def printable(text: object) -> str:
    r"""The text with every character that is not seen written out.

    >>> printable("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    text = str(text)
    if text.isprintable():
        return text
    return "".join(_written_out(c) if unicodedata.category(c) in _HIDDEN else c for c in text)


def _written_out(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
