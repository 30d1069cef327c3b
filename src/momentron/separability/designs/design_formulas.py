"""Formulas, "y ~ C(treat) * dose", as R's users and Python's spell them, through formulaic.

R allows dots in names, which are attributes in Python; `factor` and a power within a call are
spelled differently. Formulaic knows each column by another name, and what it makes of them is given
back its own.
"""

import builtins
import keyword
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from momentron.errors import InputError, one_line, short
from momentron.separability.designs.design import Design

TOKEN = re.compile(
    r"""`(?P<ticked>[^`]*)`
    |Q\s*\(\s*(?P<mark>['"])(?P<quoted>.*?)(?P=mark)\s*\)
    |'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"
    |(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?
    |[^\W\d]\w*\s*=(?!=)|(?P<name>\.?[^\W\d][\w.]*)
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
COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")  # that messages of formulaic have for terminals
COLUMN = re.compile(r"(?:C\(\s*)*(column\d+_of_data)[\s)]*")  # as it is, or as a factor
SUM = re.compile(r"(?:[^\W\d]\w*|[\s+()])+")  # of names
PLUS = re.compile(r"\+(?![^(]*\))")  # outside of brackets
OPTIONS = {
    "context": {"np": np, "sqrt": np.sqrt, "cbind": lambda *columns: np.column_stack(columns)},
    "output": "pandas",
    "na_action": "ignore",  # formulaic would leave rows out; here missing values are refused
}
TEXT = ("object", "str", "string")  # types of columns that may hold text
DIGITS = 15  # that a product of decimals has at most, if it is to be exact


def is_frame(X: Any) -> bool:
    """Whether X is a pandas data frame."""
    return hasattr(X, "iloc") and hasattr(X, "columns") and hasattr(X, "dtypes")


def from_formula(text: str, data: Any, decimals: str, sample_weight: Any = None) -> Design:
    """The design of a formula in the columns of a data frame.

    The left side is a column, an expression in Python's words, or counts of outcomes: ``successes +
    failures`` or R's ``cbind(successes, failures)``. Names may have dots, as R's do; a dot alone
    stands for all columns but those of the left side and of the weights.
    """
    try:
        import formulaic
    except ImportError as error:
        raise InputError('formulas need formulaic: pip install "momentron[formula]"') from error
    if not is_frame(data):
        raise InputError(
            f"the formula {short(text)} needs data=, a pandas data frame; got {type(data).__name__}"
        )
    weight = sample_weight if isinstance(sample_weight, str) else None
    spelling = Spelling(text, [name for name in data.columns if isinstance(name, str)], weight)
    for name in spelling.used:
        if getattr(data[name], "ndim", 1) != 1:
            raise InputError(
                f"data has {data[name].shape[1]} columns called {short(name)}; rename them"
            )
    _require_complete(data, sorted(spelling.used))
    frame = data[[*spelling.used]].rename(columns=spelling.used)
    try:
        with np.errstate(all="ignore"):  # what is not finite is refused below
            y = _outcomes(spelling.outcome, frame)
            terms = [term for term in formulaic.Formula(spelling.terms) if not _is_offset(term)]
            matrix = formulaic.model_matrix(formulaic.Formula(terms), frame, **OPTIONS)
    except Exception as error:  # formulaic has many errors of its own
        words = spelling.restored(COLOURS.sub("", str(error)) or type(error).__name__)
        raise InputError(f"the formula {short(text)} cannot be used: {one_line(words)}") from error
    kept = np.flatnonzero(matrix.columns != "Intercept")
    if not kept.size:
        raise InputError(f"the formula {short(text)} has no term but the intercept; add a feature")
    values = np.array(matrix, np.float64)
    if decimals == "shortest":
        _make_exact(values, matrix.model_spec.term_indices)
    values, names = values[:, kept], [spelling.restored(str(matrix.columns[j])) for j in kept]
    missing = ~np.isfinite(values)
    if missing.any():  # as in the logarithm of 0
        at = int(missing.any(axis=0).argmax())
        raise InputError(
            f"{names[at]} is missing or infinite in {int(missing[:, at].sum())} of {len(values)} "
            f"rows, the first of which is row {int(missing[:, at].argmax())}; leave these rows out"
        )
    if weight is not None:
        if weight not in data.columns:
            raise InputError(f"sample_weight={short(weight)} is not a column of data")
        sample_weight = data[weight]
    return Design.of(
        values,
        y,
        sample_weight,
        index=data.index,
        fit_intercept="Intercept" in matrix.columns,
        feature_names=names,
    )


def _outcomes(words: str, frame: Any) -> Any:
    """The left side of a formula: a column as it is, counts of outcomes, or what is computed."""
    import formulaic

    column = COLUMN.fullmatch(words)
    if column:
        return frame[column[1]]
    parts = PLUS.split(words) if SUM.fullmatch(words) else []
    computed = f"cbind({', '.join(parts)})" if len(parts) > 1 else words.strip("{}")
    found = np.asarray(formulaic.model_matrix(f"0 + {{{computed}}}", frame, **OPTIONS))
    # truth values may become a column per level; the last is that of True
    return found if computed.startswith("cbind") else found[:, -1]


def _is_offset(term: Any) -> bool:
    """Whether a term is an offset, which is finite, so that separation does not see it."""
    is_offset = any(factor.expr.startswith("offset(") for factor in term.factors)
    if is_offset and len(term.factors) > 1:
        raise InputError("offset() must be a term of its own")
    return is_offset


def _require_complete(data: Any, names: list[str]) -> None:
    """Refuse a frame with missing values in some columns, and count them by column."""
    counts = data[names].isna().sum()
    counts = counts[counts > 0]
    if counts.empty:
        return
    listed = ", ".join(f"{name} {count}" for name, count in counts.items())
    texts = [name for name in counts.index if str(data[name].dtype) in TEXT]
    hint = " (if {!r} says 'None' or 'NA' in the file and means it: pandas.read_csv(…, "
    hint += "keep_default_na=False, na_values=['']))"
    raise InputError(
        f"data has missing values, by column: {listed}; leave these rows out, "
        f"data.dropna(subset={counts.index.tolist()}){hint.format(*texts) if texts else ''}"
    )


def _make_exact(values: np.ndarray, terms: dict[Any, list[int]]) -> None:
    """Products of columns as decimals: 0.1 × 3 is 0.3, which floats miss by one unit.

    A column of an interaction is put back to the decimal of 15 digits next to it, where that is
    within two units of the last place.
    """
    for j in (j for term, columns in terms.items() for j in columns if len(term.factors) > 1):
        seen, at = np.unique(values[:, j], return_inverse=True)
        near = np.array([float(f"{v:.{DIGITS}g}") for v in seen.tolist()])
        with np.errstate(invalid="ignore"):  # of what is not finite, and refused
            is_near = np.abs(near - seen) <= 2 * np.spacing(np.abs(seen))
        values[:, j] = np.where(is_near, near, seen)[at]


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
        is_called = after[:1] == "("
        for n in range(len(parts) - is_called, 0, -1):
            name = ".".join(parts[:n])
            if name in self.columns and (n == len(parts) or in_call or is_called):
                return ".".join([self._alias(name), *parts[n:]])
        if in_call and keyword.iskeyword(text):
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


def columns_of(formula: str, columns: Sequence[str], weight: Any = None) -> list[str]:
    """The columns that a formula names, in the order of the table."""
    used = Spelling(formula, columns, weight).used
    return [name for name in columns if name in used]
