"""Formulas as MathML, translated when the site is built: readers need no script and no network."""

import re
from itertools import cycle
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError, unichar2tex
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.errors import ExtensionError

# Docstrings write γ, ≠ and ‖ as they are; the translator knows them by their TeX names only.
TEX = {ord("·"): r"\cdot ", ord("′"): "'", ord("…"): r"\ldots ", ord("−"): "-"}
LONG = 25  # characters beyond which a formula within a line may be wider than a phone
BREAKS = re.compile(r"\n(?=  <mo>(?:[=≤≥≈≠∈→]|&[lg]t;)</mo>\n)")  # relations
SPELLINGS = [
    (re.compile(r"\\([td]?frac)\s*(\w)\s*(\w)"), r"\\\1{\2}{\3}"),  # \tfrac12 is \tfrac{1}{2}
    (re.compile(r"\\([bB]igg?)(?=[(\[])"), r"\\\1l"),  # \big( is \bigl(
    (re.compile(r"\\([bB]igg?)(?=[)\]])"), r"\\\1r"),
]


def to_mathml(tex: str, *, as_block: bool) -> str:
    """MathML of a formula; a formula that cannot be translated ends the build."""
    table = {code: f"{name} " for code, name in unichar2tex.uni2tex_table.items() if code > 127}
    plain = tex.translate(table | TEX)
    for pattern, spelling in SPELLINGS:
        plain = pattern.sub(spelling, plain)
    try:
        formula = tex2mathml(plain, as_block=as_block)
    except MathError as error:
        raise ExtensionError(f"formula {tex!r} cannot be written as MathML: {error}") from None
    forms = cycle(["prefix", "postfix"])  # a bar with a power would be sunk, and spaced like a sign
    return re.sub(
        "<mo>‖</mo>", lambda _: f'<mo form="{next(forms)}" stretchy="false">‖</mo>', formula
    )


def letters_of(formula: str) -> str:
    """What a formula shows, without markup."""
    return re.sub(r"<[^>]*>|\s", "", formula)


def pieces_of(formula: str) -> list[str]:
    """A long formula in pieces that begin with a relation: browsers break lines between them."""
    if len(letters_of(formula)) <= LONG:
        return [formula]
    opening, *pieces = BREAKS.split(formula.removesuffix("</math>"))
    if "\n" in opening:  # the formula does not begin with a relation
        opening, _, first = opening.partition("\n")
        pieces = [first, *pieces]
    return [f"{opening}\n{piece}</math>" for piece in pieces]


def visit_inline(self: Any, node: nodes.Element) -> None:
    for piece in pieces_of(to_mathml(node.astext(), as_block=False)):
        is_long = len(letters_of(piece)) > LONG
        self.body.append(f'<span class="long-formula">{piece}</span>' if is_long else piece)
    raise nodes.SkipNode


def visit_block(self: Any, node: nodes.Element) -> None:
    formula = to_mathml(node.astext(), as_block=True)
    self.body.append(f'<div class="formula">{formula}</div>\n')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
