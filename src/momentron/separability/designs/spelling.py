"""A formula as R's users and Python's spell it, in the words that formulaic takes.

R allows dots in names, which are attributes in Python; `factor`, `offset` and a power within a call
are spelled differently. Columns whose names are not Python's get a name that is, and one that reads
as before is given back to what is made of them.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from momentron.errors import InputError, one_line, short

TOKEN = re.compile(
    r"""(?:(?P<quoted>`[^`]*`)
    |(?P<text>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")
    |(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    |(?P<name>\.?[^\W\d][\w.]*)
    |(?P<sign>%in%|\*\*|==|!=|<=|>=|.))(?P<space>\s*)""",
    re.VERBOSE,
)
FACTORS = ("factor", "as.factor")
REMEDIES = {  # by the name of a function of R or of patsy
    "as.numeric": "make it a number in data",
    "cut": "make the groups in data, with pandas.cut",
    "ifelse": "write np.where({0}, 1, 0), or make the column in data",
    "interaction": "write C(a):C(b)",
    "ns": "write cr({0}, df=4, constraints='center') for a natural cubic spline",
    "ordered": "write C({0})",
    "relevel": "write C({0}, contr.treatment('reference level'))",
    "s": "write bs({0}, df=4) for a spline",
    "strata": "write C({0}) for a fixed effect per stratum (a conditional model is not supported)",
    "te": "write bs(a, df=4):bs(b, df=4)",
}
FUNCTIONS = {"C", "I", "Q", "np", "contr", "bs", "cc", "cr", "cs", "center", "scale", "poly"} | {
    *("log", "log2", "log10", "exp", "exp2", "exp10", "sqrt", "standardize", "hashed", "lag"),
    *("Treatment", "Sum", "Diff", "Helmert", "Poly"),
}
BEFORE_A_TERM, AFTER_A_TERM = ("", "+", "("), ("", "+", "-", ")")
OPENING, CLOSING = ("(", "[", "{"), (")", "]", "}")


class Token(NamedTuple):
    """A piece of a formula, its kind, a group of `TOKEN`, and the white space after it."""

    kind: str
    text: str
    space: str = ""


END = Token("", "")  # what is before the first token, and after the last


class Spelling:
    """A formula, and what its names mean, given the columns of a table.

    Attributes
    ----------
    formula : str
        All of it, for messages.
    outcomes : list of (str, bool)
        Each outcome on the left side: the name of a column, and True; or in formulaic's words.
    terms : str
        The right side, in formulaic's words.
    used : dict of str to str
        The columns that are named, with the names by which formulaic knows them.
    """

    def __init__(self, formula: str, columns: Sequence[str], weight: str | None = None) -> None:
        self.formula, self.columns = formula, columns
        self.used: dict[str, str] = {}
        self.others: list[str] = []  # the columns that a dot stands for
        left, _, right = (side.strip() for side in formula.partition("~"))
        if not left or not right or "~" in right:
            raise InputError(f"the formula {short(formula)} must have two sides, such as 'y ~ x'")
        self.outcomes = [self._outcome(part) for part in split_outcomes(left)]
        self.others = [c for c in columns if c not in self.used and c != weight]
        self.terms = self._translated(right)

    def _translated(self, part: str) -> str:
        return "".join(self._words(_tokens(part)))

    def restored(self, name: str) -> str:
        """A name that formulaic made, in the user's words."""
        for column, alias in self.used.items():
            if alias != column:
                name = name.replace(alias, column)
        return name

    def _outcome(self, part: str) -> tuple[str, bool]:
        """(the column that a part of the left side is, in any spelling; True), or (words, False).

        An outcome that is computed, such as ``dose > 3`` or ``total - deaths``, is in braces.
        """
        tokens = _tokens(part)
        while (
            len(tokens) > 3
            and tokens[0].text in (*FACTORS, "C")
            and _closing(tokens, 1) == (len(tokens) - 1)
        ):
            tokens = tokens[2:-1]
        if len(tokens) == 1 and tokens[0].kind in ("quoted", "name"):
            name = tokens[0].text.strip("`")
        elif _is_quote(tokens, 0) and len(tokens) == 4:
            name = tokens[2].text[1:-1]
        else:
            is_braced = part[0] == "{" and part[-1] == "}"
            return self._translated(part if is_braced else f"{{{part}}}"), False
        self._named(name)
        return name, True

    def _words(self, tokens: list[Token]) -> Iterator[str]:
        """The tokens in formulaic's words, one after the other."""
        tokens = self._without_offsets(tokens)
        stack: list[bool] = []  # of each bracket that is open, whether Python reads within it
        at = 0
        while at < len(tokens):
            kind, text, space = tokens[at]
            before, after = _at(tokens, at - 1), _at(tokens, at + 1).text
            if kind == "quoted":
                yield self._named(text[1:-1])
            elif _is_quote(tokens, at):
                yield self._named(tokens[at + 2].text[1:-1])
                at += 3
            elif kind == "name" and not (text[0] == "." and before.text in (")", "]")):
                yield self._name(text, after, tokens[at:], in_call=any(stack))
            elif text == "." and not any(stack):
                if not self.others:
                    raise InputError(
                        f"the formula {short(self.formula)}: there is no column left for '.'"
                    )
                yield f"({' + '.join(map(self._named, self.others))})"
            elif text == "^" and any(stack):
                yield "**"  # in Python it is the exclusive or of whole numbers
            elif text == "|" and not any(stack):
                raise InputError(
                    f"the formula {short(self.formula)} has '|', for groups or random effects, "
                    "which are not supported; write C(group) for a fixed effect per group, or a + b"
                )
            else:
                yield text
            yield space
            if text in OPENING:
                stack.append(text != "(" or before.kind in ("name", "quoted"))
            elif text in CLOSING and stack:
                stack.pop()
            at += 1

    def _name(self, text: str, after: str, tokens: list[Token], *, in_call: bool) -> str:
        """A name: a column, the start of one with an attribute, a function, or a keyword."""
        parts = text.split(".")
        is_called = after == "("
        for n in range(len(parts) - is_called, 0, -1):
            name = ".".join(parts[:n])
            is_option = in_call and after == "=" and n == len(parts)
            is_attribute = n < len(parts) and (in_call or is_called)
            if name in self.columns and not is_option and (n == len(parts) or is_attribute):
                return ".".join([self._named(name), *parts[n:]])
        if in_call and (after == "=" or keyword.iskeyword(text)):
            return text
        if is_called and text in FACTORS:
            if any(token.text == "," for token in tokens[: _closing(tokens, 1)]):
                raise InputError(
                    f"{text}() with levels or labels is not supported; write "
                    "C(x, levels=['first', 'second'])"
                )
            return "C"
        if parts[0] in FUNCTIONS or (is_called and hasattr(builtins, text)):
            return text
        raise self._unknown_function(text, tokens) if is_called else self._unknown(text)

    def _named(self, name: str) -> str:
        """The name by which formulaic knows a column."""
        if name not in self.columns:
            raise self._unknown(name)
        is_plain = name.isidentifier() and not keyword.iskeyword(name) and name.isascii()
        if name not in self.used:
            number = len(self.used)
            alias = name if is_plain and name not in FUNCTIONS else f"column{number}_of_data"
            while alias != name and alias in self.columns:
                alias += "_"
            self.used[name] = alias
        return self.used[name]

    def _without_offsets(self, tokens: list[Token]) -> list[Token]:
        """Without the terms offset(…), which are finite, so that separation does not see them."""
        at = 0
        while at < len(tokens):
            if tokens[at].text != "offset" or _at(tokens, at + 1).text != "(":
                at += 1
                continue
            end = _closing(tokens, at + 1)
            list(self._words(tokens[at + 2 : end]))  # its columns must be there, and complete
            before, after = _at(tokens, at - 1).text, _at(tokens, end + 1).text
            if before not in BEFORE_A_TERM or after not in AFTER_A_TERM:
                raise InputError(
                    f"the formula {short(self.formula)}: offset() must be a term of its own"
                )
            at -= before == "+"
            end += before != "+" and after == "+"
            tokens = [*tokens[:at], *tokens[end + 1 :]] or [Token("number", "1")]
        return tokens

    def _unknown(self, name: str) -> InputError:
        names = one_line(", ".join(map(str, self.columns)))
        return InputError(f"data has no column {short(name)}; its columns: {names}")

    def _unknown_function(self, name: str, tokens: list[Token]) -> InputError:
        inner = "".join(t.text for t in tokens[2 : _closing(tokens, 1)])
        argument = inner.split(",")[0].strip() or "x"
        plain = name.rpartition(".")[2]
        if name in REMEDIES:
            remedy = REMEDIES[name].format(argument)
        elif hasattr(np, plain):
            remedy = f"write np.{plain}({argument})"
        else:
            remedy = "make the column in data, or write it with np"
        return InputError(f"{name} is not a function here; {remedy}")


def columns_of(formula: str, columns: Sequence[str], weight: str | None = None) -> list[str]:
    """The columns that a formula names, in the order of the table."""
    used = Spelling(formula, columns, weight).used
    return [name for name in columns if name in used]


def split_outcomes(left: str) -> list[str]:
    """The parts of the left side: one outcome, or counts of several."""
    tokens = _tokens(left)
    texts = [token.text for token in tokens]
    if texts[:2] == ["cbind", "("] and _closing(tokens, 1) == len(texts) - 1:
        return _split(tokens[2:-1], ",")
    is_sum = all(t.kind in ("name", "quoted", "text") or t.text in "+()" for t in tokens)
    parts = _split(tokens, "+") if is_sum else []
    return parts if len(parts) > 1 else [left]


def _split(tokens: list[Token], sign: str) -> list[str]:
    """The texts between signs that are not within brackets."""
    parts, depth = [""], 0
    for _, text, space in tokens:
        depth += (text in OPENING) - (text in CLOSING)
        if text == sign and not depth:
            parts.append("")
        else:
            parts[-1] += text + space
    return [part.strip() for part in parts]


def _tokens(part: str) -> list[Token]:
    found = []
    for match in TOKEN.finditer(part.strip()):
        kind = next(name for name, text in match.groupdict().items() if text is not None)
        found.append(Token(kind, match[kind], match["space"]))
    return found


def _at(tokens: list[Token], at: int) -> Token:
    return tokens[at] if 0 <= at < len(tokens) else END


def _is_quote(tokens: list[Token], at: int) -> bool:
    """Whether Q("…") is at a position."""
    first, bracket, name = (_at(tokens, at + i) for i in range(3))
    return (first.text, bracket.text, name.kind) == ("Q", "(", "text")


def _closing(tokens: list[Token], at: int) -> int:
    """The position of the bracket that closes the one at a position; the last token if none."""
    depth = 0
    for i in range(at, len(tokens)):
        depth += (tokens[i].text in OPENING) - (tokens[i].text in CLOSING)
        if depth == 0:
            return i
    return len(tokens) - 1
