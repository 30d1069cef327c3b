"""The documentation site: `python -m sphinx -W -j auto docs docs/_build/html` builds all of it."""

import inspect
import os
import re
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from numpydoc.xref import DEFAULT_LINKS
from sphinx.ext.autodoc.mock import mock

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
os.environ.setdefault("MPLBACKEND", "agg")
os.environ.setdefault("COLUMNS", "88")

import momentron  # noqa: E402

project = "momentron"
author = "The momentron developers"
project_copyright = "The momentron developers"
version = release = momentron.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "command_line",
    "local_links",
]
exclude_patterns = [
    "_build",
    "gallery/**/*.ipynb",
    "gallery/**/*.py",
    "gallery/**/*.md5",
    "**/*.zip",
]
templates_path = ["_templates"]

# Pages are Markdown; docstrings are numpydoc, whose `names` link where they name something public.
myst_enable_extensions = ["dollarmath", "colon_fence", "attrs_inline", "deflist"]
myst_heading_anchors = 3
myst_dmath_double_inline = True
default_role = "py:obj"
toc_object_entries_show_parents = "hide"
autodoc_member_order = "bysource"
autodoc_typehints = "none"

# torch is large: without it two examples are shown without running.
HAS_TORCH = find_spec("torch") is not None
autodoc_mock_imports = [] if HAS_TORCH else ["torch"]

# The reference: a page per listed module, with its names in groups, and a page per name.
LISTED = re.findall(
    r"^   (momentron[\w.]*)$", (HERE / "reference/index.md").read_text("utf-8"), re.M
)
with mock(autodoc_mock_imports):
    MODULES = {name: import_module(name) for name in LISTED}
    PUBLIC = {
        f"{module}.{name}": getattr(MODULES[module], name)
        for module in reversed(LISTED)  # what is in `momentron`, too, has its page there
        for name in MODULES[module].__all__
    }
PAGES = {thing: name for name, thing in PUBLIC.items() if inspect.isclass(thing)}


def bases_of(name: str) -> list[str]:
    """The classes with a page that a class is derived from."""
    return [PAGES[base] for base in PUBLIC[name].__mro__[1:] if base in PAGES]


def tables_of(module: str) -> list[tuple[str, str]]:
    """The public tables of a module, and what they hold."""
    names = [name for name in MODULES[module].__all__ if name.isupper()]
    tables = {name: PUBLIC[f"{module}.{name}"] for name in names}
    return [(name, ", ".join(f"``{key!r}``" for key in keys)) for name, keys in tables.items()]


autosummary_imported_members = True
autosummary_ignore_module_all = False
autosummary_filename_map = {"momentron.Race": "momentron.Race-result"}  # next to momentron.race
autosummary_context = {
    "top": momentron.__all__,
    "estimators": sorted((n for n in momentron.__all__ if "MaxMarginClassifier" in n), key=len),
    "bases_of": bases_of,
    "tables_of": tables_of,
    # what a class inherits is listed, except from bases that have a page or are not ours
    "told_elsewhere": ", ".join(
        sorted(
            {
                base.__name__
                for thing in PAGES
                for base in thing.__mro__[1:]
                if base in PAGES or not base.__module__.startswith("momentron.")
            }
            - {"ClassifierMixin"}  # it has `score`
            | {"RadialKernel", "PairwiseKernel"}  # which compute values, for nobody to call
        )
    ),
}
numpydoc_show_class_members = False  # autodoc does
numpydoc_xref_param_type = True
numpydoc_xref_aliases = {name: f"momentron.{name}" for name in momentron.__all__}
numpydoc_xref_ignore = "all"
DEFAULT_LINKS.clear()  # to the sites of Python and NumPy, for which builds would need a network
strip_signature_backslash = True  # with it a name like margin_ keeps its underscore
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Formulas become MathML when the site is built: no script, no font, no network.
html_math_renderer = "mathml"

# Examples run when they changed; their pictures are kept in docs/gallery between builds.
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_" if HAS_TORCH else r"plot_(?!10|12)",
    "within_subsection_order": "FileNameSortKey",
    "copyfile_regex": "",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,
    "show_signature": False,
    "abort_on_example_error": True,
    "matplotlib_animations": False,
    "image_scrapers": ("matplotlib",),
    "image_srcset": ["2x"],
    "thumbnail_size": (800, 500),
    "compress_images": (),
    "parallel": 2,
    "reference_url": {"momentron": None},
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("momentron",),
}
suppress_warnings = ["config.cache"]  # the gallery's settings hold objects that cannot be pickled

html_theme = "pydata_sphinx_theme"
html_title = f"momentron {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/mark.svg"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {
        "text": f'momentron <span class="version">{release}</span>',
        "image_light": "_static/mark.svg",
        "image_dark": "_static/mark.svg",
    },
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 7,
    "show_toc_level": 2,
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "search_bar_text": "Search",
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "back_to_top_button": False,
}
html_context = {"default_mode": "auto"}
if repository := os.environ.get("GITHUB_REPOSITORY"):  # "owner/name", where GitHub builds the site
    html_theme_options["github_url"] = f"https://github.com/{repository}"
    html_theme_options["navbar_end"] = ["theme-switcher", "navbar-icon-links"]
html_sidebars = {"index": [], "get-started": [], "benchmarks": []}


def escape(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Docstrings write |t| and coef_ as they are; in reStructuredText both would be links."""
    if name.endswith("Classifier.score"):  # scikit-learn's text links to pages of its own site
        lines[:] = ["The share of the rows that get their label, as scikit-learn counts it."]
    is_formula = False
    for place, line in enumerate(lines):
        if line.strip():
            is_formula = ".. math::" in line or (is_formula and line.startswith(" "))
        if not is_formula and not line.lstrip().startswith(("..", ">>>")):
            parts = re.split(r"(`+[^`]*`+|^\s*:[^:]*:)", line)  # literals and fields stay
            parts[::2] = [re.sub(r"\||(?<=\w)_(?!\w)", r"\\\g<0>", part) for part in parts[::2]]
            lines[place] = "".join(parts)


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", escape, priority=600)  # after numpydoc
