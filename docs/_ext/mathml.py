"""Formulas as MathML, translated when the site is built: readers need no script and no network."""

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError, unichar2tex
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.errors import ExtensionError

# Docstrings write γ, ≠ and ‖ as they are; the translator knows them by their TeX names only.
TEX = {ord("·"): r"\cdot ", ord("′"): "'", ord("…"): r"\ldots ", ord("−"): "-"}
UNSIZED = r"(?<!\\left)(?<!\\right)(?<!\\[bB]ig[lr])(?<!\\[bB]igg[lr])‖"
LONG = 25  # characters beyond which a formula within a line may be wider than a phone
SPELLINGS = [
    (re.compile(r"\\\|"), "‖"),
    (re.compile(rf"{UNSIZED}([^‖]+){UNSIZED}"), r"{‖\1‖}"),  # else a power belongs to the last bar
    (re.compile(r"\\([td]?frac)\s*(\w)\s*(\w)"), r"\\\1{\2}{\3}"),  # \tfrac12 is \tfrac{1}{2}
    (re.compile(r"\\([bB]igg?)(?=[(\[])"), r"\\\1l"),  # \big( is \bigl(
    (re.compile(r"\\([bB]igg?)(?=[)\]])"), r"\\\1r"),
]


def to_mathml(tex: str, *, as_block: bool) -> str:
    """MathML of a formula; a formula that cannot be translated ends the build."""
    table = {code: f"{name} " for code, name in unichar2tex.uni2tex_table.items() if code > 127}
    plain = tex
    for pattern, spelling in SPELLINGS:
        plain = pattern.sub(spelling, plain)
    try:
        formula = tex2mathml(plain.translate(table | TEX), as_block=as_block)
        return formula.replace("<mo>‖</mo>", '<mo stretchy="false">‖</mo>')
    except MathError as error:
        raise ExtensionError(f"formula {tex!r} cannot be written as MathML: {error}") from None


def visit_inline(self: Any, node: nodes.Element) -> None:
    formula = to_mathml(node.astext(), as_block=False)
    is_long = len(re.sub(r"<[^>]*>|\s", "", formula)) > LONG
    self.body.append(f'<span class="long-formula">{formula}</span>' if is_long else formula)
    raise nodes.SkipNode


def visit_block(self: Any, node: nodes.Element) -> None:
    formula = to_mathml(node.astext(), as_block=True)
    self.body.append(f'<div class="formula">{formula}</div>\n')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
