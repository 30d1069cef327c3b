"""A formula as R's users and Python's spell it, in the words that formulaic takes.

R allows dots in names, which are attributes in Python; `factor` and a power within a call are
spelled differently. Formulaic knows each column by another name, and what it makes of them is given
back its own.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Sequence

import numpy as np

from momentron.errors import InputError, one_line, short

TOKEN = re.compile(
    r"""`(?P<ticked>[^`]*)`
    |Q\s*\(\s*(?P<mark>['"])(?P<quoted>.*?)(?P=mark)\s*\)
    |'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"
    |(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?
    |(?P<name>\.?[^\W\d][\w.]*)
    |%in%|\*\*|==|!=|<=|>=|\s+|.""",
    re.VERBOSE,
)
ARGUMENT = re.compile(r"\(\s*((?:[^,()]|\([^()]*\))*)(,?)")  # the first of a call
ALIAS = re.compile(r"column(\d+)_of_data")  # by which formulaic knows a column
FACTORS = ("factor", "as.factor")
REMEDIES = {  # by the name of a function of R or of patsy
    "Q": "write Q('{0}')",
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
FUNCTIONS = {"C", "I", "np", "contr", "bs", "cc", "cr", "cs", "center", "scale", "poly", "lag"} | {
    *("log", "log2", "log10", "exp", "exp2", "exp10", "sqrt", "standardize", "hashed"),
    *("Treatment", "Sum", "Diff", "Helmert", "Poly", "cbind", "offset"),
}


class Spelling:
    """A formula, and what its names mean, given the columns of a table.

    Attributes
    ----------
    outcome, terms : str
        The two sides, in formulaic's words.
    used : dict of str to str
        The columns that are named, with the names by which formulaic knows them.
    """

    def __init__(self, formula: str, columns: Sequence[str], weight: str | None = None) -> None:
        self.formula, self.columns = formula, columns
        self.used: dict[str, str] = {}
        left, _, right = (side.strip() for side in formula.partition("~"))
        if not left or not right or "~" in right:
            raise InputError(f"the formula {short(formula)} must have two sides, such as 'y ~ x'")
        self.outcome = self._translated(left, [])
        others = [name for name in columns if name not in self.used and name != weight]
        self.terms = self._translated(right, others)

    def restored(self, text: str) -> str:
        """What formulaic says about columns, in the user's words."""
        names = list(self.used)
        return ALIAS.sub(lambda found: names[int(found[1])], text)

    def _translated(self, side: str, others: Sequence[str]) -> str:
        """One side in formulaic's words; a dot stands for the other columns."""
        words, before = list[str](), ""  # the token before this one, blanks apart
        stack: list[bool] = []  # of each bracket that is open, whether Python reads within it
        for token in TOKEN.finditer(side):
            text, in_call = token[0], any(stack)
            column = token["ticked"] if token["quoted"] is None else token["quoted"]
            if column is not None:
                words.append(self._alias(column))
            elif token["name"] and not (text[0] == "." and before in (")", "]")):
                words.append(self._name(text, side[token.end() :].lstrip(), in_call))
            elif text == "." and not in_call:
                if not others:
                    raise self._refused(": there is no column left for '.'")
                words.append(f"({' + '.join(map(self._alias, others))})")
            elif text == "|" and not in_call:
                raise self._refused(
                    " has '|', for groups or random effects, which are not supported; write "
                    "C(group) for a fixed effect per group, or a + b"
                )
            else:  # in Python ^ is the exclusive or of whole numbers
                words.append("**" if text == "^" and in_call else text)
            if text in ("(", "[", "{"):
                stack.append(text != "(" or before[-1:].isalnum() or before[-1:] in ("_", "`"))
            elif text in (")", "]", "}") and stack:
                stack.pop()
            before = text if text.strip() else before
        return "".join(words)

    def _name(self, text: str, after: str, in_call: bool) -> str:
        """A name: a column, the start of one with an attribute, a function, or a keyword."""
        parts = text.split(".")
        is_called, is_option = after[:1] == "(", in_call and re.match("=(?!=)", after) is not None
        for n in range(len(parts) - is_called, 0, -1):
            name = ".".join(parts[:n])
            is_possible = not is_option if n == len(parts) else in_call or is_called
            if name in self.columns and is_possible:
                return ".".join([self._alias(name), *parts[n:]])
        if is_option or (in_call and keyword.iskeyword(text)):
            return text
        first = ARGUMENT.match(after)
        if first and text in FACTORS:
            if first[2]:
                raise InputError(
                    f"{text}() with levels or labels is not supported; write "
                    "C(x, levels=['first', 'second'])"
                )
            return "C"
        if parts[0] in FUNCTIONS or (first and hasattr(builtins, text)):
            return text
        if not first:
            raise self._unknown(text)
        argument = first[1].strip() or "x"
        if text in REMEDIES:
            remedy = REMEDIES[text].format(argument)
        elif hasattr(np, parts[-1]):
            remedy = f"write np.{parts[-1]}({argument})"
        else:
            remedy = "make the column in data, or write it with np"
        raise InputError(f"{text} is not a function here; {remedy}")

    def _alias(self, name: str) -> str:
        """The name by which formulaic knows a column."""
        if name not in self.columns:
            raise self._unknown(name)
        return self.used.setdefault(name, f"column{len(self.used)}_of_data")

    def _unknown(self, name: str) -> InputError:
        names = one_line(", ".join(map(str, self.columns)))
        return InputError(f"data has no column {short(name)}; its columns: {names}")

    def _refused(self, why: str) -> InputError:
        return InputError(f"the formula {short(self.formula)}{why}")


def columns_of(formula: str, columns: Sequence[str], weight: str | None = None) -> list[str]:
    """The columns that a formula names, in the order of the table."""
    used = Spelling(formula, columns, weight).used
    return [name for name in columns if name in used]
