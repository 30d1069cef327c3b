"""Pages in a real browser: the report, what notebooks show, and the documentation where built.

Needs a Chromium (`.ci/browser` finds or installs one), named by MOMENTRON_CHROMIUM or on the path.
The documentation is looked for in the folder MOMENTRON_SITE, or docs/_build/html.
"""

import os
from pathlib import Path

import numpy as np
import pytest
from browser import Browser, find
from test_report import case
from test_repr_html import SHOWN

from momentron.cli.report import examine, render

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(find() is None, reason="there is no Chromium here; see .ci/browser"),
]
WIDTHS = [1280, 375]
SITE = Path(os.environ.get("MOMENTRON_SITE") or Path(__file__).parents[1] / "docs/_build/html")
NOTEBOOK = """<!DOCTYPE html><html lang="en"><meta charset="utf-8"><meta name="viewport"
content="width=device-width"><style>:root{color-scheme:light dark}body{font:14px sans-serif;
color:CanvasText;background:Canvas}</style><body>%s</body></html>"""


@pytest.fixture(scope="module")
def browser():
    with Browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    long_name = "a_feature_with_a_name_that_does_not_end_" * 4
    for kind in ("separable", "two features", "overlapping", "three classes"):
        X, y = case(kind)
        names = [f"{long_name}{j}" for j in range(X.shape[1])]
        findings = examine(X, y, title=long_name, feature_names=names)
        page = render(findings, source=f"/{long_name}.csv", options=" --target outcome")
        (folder / f"{kind}.html").write_text(page)
    rng = np.random.default_rng(0)
    wide = examine(rng.normal(size=(30, 60)), np.array([long_name, "b" * 200])[np.arange(30) % 2])
    (folder / "wide.html").write_text(render(wide))
    shown = "<hr>".join(found._repr_html_() for found in SHOWN.values())
    opened = shown.replace("<details>", "<details open>")
    (folder / "notebook.html").write_text(NOTEBOOK % opened)
    return folder


def require_clean(seen):
    assert seen.problems == []
    assert seen.broken == []
    assert seen.excess <= 0, seen.guilty


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    "name", ["separable", "two features", "overlapping", "three classes", "wide", "notebook"]
)
def test_pages_are_clean_with_scripts_and_without(browser, pages, name, width, dark):
    page = pages / f"{name}.html"
    for scripts in (True, False):
        seen = browser.look(page, width=width, dark=dark, scripts=scripts)
        require_clean(seen)
        assert seen.poor_contrast == []
        assert seen.requests == [page.resolve().as_uri()]  # nothing else is asked for


def test_faults_are_seen(browser, tmp_path):
    """The look itself: each kind of fault is found where there is one."""
    page = tmp_path / "bad.html"
    page.write_text(
        "<!DOCTYPE html><body style='background:#fff'><p style='color:#bbb'>pale</p>"
        "<img src='missing.png'><div style='width:2000px'>wide</div>"
        "<script>console.error('bad'); undefined_name()</script>"
    )
    seen = browser.look(page)
    assert any("bad" in problem for problem in seen.problems)
    assert any("exception" in problem for problem in seen.problems)
    assert seen.broken == ["missing.png"]
    assert seen.excess > 0
    assert [text for text, _ in seen.poor_contrast] == ["pale"]


def site_pages():
    """The start page, and one page of each folder below it."""
    if not (SITE / "index.html").exists():
        return []
    pages = [SITE / "index.html"]
    for folder in sorted(path for path in SITE.iterdir() if path.is_dir()):
        if not folder.name.startswith(("_", ".")):
            found = sorted(folder.rglob("*.html"))
            index = folder / "index.html"
            pages += [index] if index.exists() else found[:1]
            # a leaf page too: galleries and references are widest there
            pages += [page for page in found if page not in pages][:1]
    return pages


@pytest.mark.skipif(not site_pages(), reason="the documentation is not built here")
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("page", site_pages(), ids=lambda page: str(page.relative_to(SITE)))
def test_the_documentation_is_clean(browser, page, width):
    require_clean(browser.look(page, width=width, contrast=False))
