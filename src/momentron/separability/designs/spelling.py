"""A formula as R's users and Python's spell it, in the words that formulaic takes.

R allows dots in names, which are attributes in Python; `factor`, `offset` and a power within a call
are spelled differently. Columns whose names are not Python's get a name that is, and one that reads
as before is given back to what is made of them.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from momentron.errors import InputError, one_line, short

TOKEN = re.compile(
    r"""(?P<quoted>`[^`]*`)
    |(?P<text>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")
    |(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    |(?P<name>\.?[^\W\d][\w.]*)
    |(?P<space>\s+)
    |(?P<sign>%in%|\*\*|==|!=|<=|>=|.)""",
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


class Token(NamedTuple):
    """A piece of a formula, and its kind: a group of `TOKEN`."""

    kind: str
    text: str


@dataclass
class Spelling:
    """What the names of a formula mean, given the columns of a table.

    Attributes
    ----------
    formula : str
        All of it, for messages.
    columns : collection of str
    others : sequence of str
        The columns that a dot stands for.
    used : dict of str to str
        The columns that are named so far, with the names by which formulaic knows them.
    """

    formula: str
    columns: Collection[str]
    others: Sequence[str] = ()
    used: dict[str, str] = field(default_factory=dict)

    def translated(self, part: str) -> str:
        """A part of the formula in formulaic's words."""
        tokens = list(_tokens(part))
        return "".join(self._words(tokens))

    def restored(self, name: str) -> str:
        """A name that formulaic made, in the user's words."""
        for column, alias in self.used.items():
            if alias != column:
                name = name.replace(alias, column)
        return name

    def column(self, part: str) -> str | None:
        """The column that a part of the formula is, in any spelling; None where it is not one."""
        tokens = [token for token in _tokens(part) if token.kind != "space"]
        while (
            len(tokens) > 3
            and tokens[0].text in (*FACTORS, "C")
            and _closing(tokens, 1) == (len(tokens) - 1)
        ):
            tokens = tokens[2:-1]
        if len(tokens) == 1 and tokens[0].kind in ("quoted", "name"):
            name = tokens[0].text.strip("`")
        elif [t.text for t in tokens[:2]] == ["Q", "("] and len(tokens) == 4:
            name = tokens[2].text[1:-1]
        else:
            return None
        if name not in self.columns:
            raise self._unknown(name)
        self._alias(name)
        return name

    def _words(self, tokens: list[Token]) -> Iterator[str]:
        """The tokens in formulaic's words, one after the other."""
        tokens = self._without_offsets(tokens)
        stack: list[bool] = []  # of each bracket that is open, whether Python reads within it
        at = 0
        while at < len(tokens):
            kind, text = tokens[at]
            before, after = _neighbour(tokens, at, -1), _neighbour(tokens, at, 1)
            if kind == "quoted":
                yield self._named(text[1:-1])
            elif kind == "name" and text == "Q" and _is_quote(tokens, at):
                yield self._named(tokens[at + 2].text[1:-1])
                at += 3
            elif kind == "name" and not (text[0] == "." and before in (")", "]")):
                yield self._name(text, after, tokens[at:], in_call=any(stack))
            elif text == "." and not any(stack):
                yield self._all_others()
            elif text == "^" and any(stack):
                yield "**"  # in Python it is the exclusive or of whole numbers
            elif text == "|" and not any(stack):
                raise InputError(
                    f"the formula {short(self.formula)} has '|', for groups or random effects, "
                    "which are not supported; write C(group) for a fixed effect per group, or a + b"
                )
            else:
                yield text
            if text in "([{" and len(text) == 1:
                is_call = text != "(" or _neighbour_kind(tokens, at) in ("name", "quoted")
                stack.append(is_call)
            elif text in (")", "]", "}") and stack:
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
            inner = tokens[: _closing(tokens, _next(tokens, 0)) + 1]
            if any(token.text == "," for token in inner):
                raise InputError(
                    f"{text}() with levels or labels is not supported; write "
                    "C(x, levels=['first', 'second'])"
                )
            return "C"
        if parts[0] in FUNCTIONS or (is_called and hasattr(builtins, text)):
            return text
        if is_called:
            raise self._unknown_function(text, tokens)
        raise self._unknown(text)

    def _named(self, name: str) -> str:
        if name not in self.columns:
            raise self._unknown(name)
        return self._alias(name)

    def _alias(self, name: str) -> str:
        """The name by which formulaic knows a column."""
        is_plain = name.isidentifier() and not keyword.iskeyword(name) and name.isascii()
        if name not in self.used:
            number = len(self.used)
            alias = name if is_plain and name not in FUNCTIONS else f"column{number}_of_data"
            while alias != name and alias in self.columns:
                alias += "_"
            self.used[name] = alias
        return self.used[name]

    def _all_others(self) -> str:
        names = [self._alias(name) for name in self.others]
        if not names:
            raise InputError(f"the formula {short(self.formula)}: there is no column left for '.'")
        return f"({' + '.join(names)})"

    def _without_offsets(self, tokens: list[Token]) -> list[Token]:
        """Without the terms offset(…), which are finite, so that separation does not see them."""
        at = 0
        while at < len(tokens):
            if tokens[at].text != "offset" or _neighbour(tokens, at, 1) != "(":
                at += 1
                continue
            end = _closing(tokens, _next(tokens, at))
            list(self._words(tokens[at + 2 : end]))  # its columns must be there, and complete
            before, after = _neighbour(tokens, at, -1), _neighbour(tokens, end, 1)
            if before not in BEFORE_A_TERM or after not in AFTER_A_TERM:
                raise InputError(
                    f"the formula {short(self.formula)}: offset() must be a term of its own"
                )
            first, last = at, end + 1
            if before == "+":
                first = max(i for i in range(at) if tokens[i].text == "+")
            elif after == "+":
                last = min(i for i in range(last, len(tokens)) if tokens[i].text == "+") + 1
            left = [*tokens[:first], *tokens[last:]]
            tokens = left if any(t.kind != "space" for t in left) else [Token("number", "1")]
            at = first
        return tokens

    def _unknown(self, name: str) -> InputError:
        names = one_line(", ".join(map(str, self.columns)))
        return InputError(f"data has no column {short(name)}; its columns: {names}")

    def _unknown_function(self, name: str, tokens: list[Token]) -> InputError:
        inner = "".join(t.text for t in tokens[2 : _closing(tokens, _next(tokens, 0))])
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
    left, _, right = formula.partition("~")
    spelling = Spelling(formula, columns)
    for part in split_outcomes(left):
        if spelling.column(part) is None:
            spelling.translated(part)
    spelling.others = [c for c in columns if c not in spelling.used and c != weight]
    spelling.translated(right)
    return [name for name in columns if name in spelling.used]


def split_outcomes(left: str) -> list[str]:
    """The parts of the left side: one outcome, or counts of several."""
    tokens = list(_tokens(left.strip()))
    texts = [token.text for token in tokens]
    if (
        texts[:1] == ["cbind"]
        and "(" in texts
        and _closing(tokens, texts.index("(")) == (len(texts) - 1)
    ):
        return _split(tokens[texts.index("(") + 1 : -1], ",")
    is_sum = all(t.kind in ("name", "quoted", "space", "text") or t.text in "+()" for t in tokens)
    parts = _split(tokens, "+") if is_sum else []
    return parts if len(parts) > 1 else [left.strip()]


def _split(tokens: list[Token], sign: str) -> list[str]:
    """The texts between signs that are not within brackets."""
    parts, depth = [""], 0
    for _, text in tokens:
        depth += (text in ("(", "[", "{")) - (text in (")", "]", "}"))
        if text == sign and not depth:
            parts.append("")
        else:
            parts[-1] += text
    return [part.strip() for part in parts]


def _tokens(part: str) -> Iterator[Token]:
    for match in TOKEN.finditer(part):
        yield Token(str(match.lastgroup), match[0])


def _next(tokens: list[Token], at: int, step: int = 1) -> int:
    """The position of the next token that is not white space; −1 where there is none."""
    at += step
    while 0 <= at < len(tokens) and tokens[at].kind == "space":
        at += step
    return at if at < len(tokens) else -1


def _neighbour(tokens: list[Token], at: int, step: int) -> str:
    found = _next(tokens, at, step)
    return tokens[found].text if found >= 0 else ""


def _neighbour_kind(tokens: list[Token], at: int) -> str:
    found = _next(tokens, at, -1)
    return tokens[found].kind if found >= 0 else ""


def _is_quote(tokens: list[Token], at: int) -> bool:
    """Whether a name is that of Q("…")."""
    following = tokens[at + 1 : at + 4]
    return len(following) == 3 and following[1].kind == "text" and following[0].text == "("


def _closing(tokens: list[Token], at: int) -> int:
    """The position of the bracket that closes the one at a position; the last token if none."""
    depth = 0
    for i in range(at, len(tokens)):
        depth += (tokens[i].text in ("(", "[", "{")) - (tokens[i].text in (")", "]", "}"))
        if depth == 0:
            return i
    return len(tokens) - 1
