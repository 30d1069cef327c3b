"""The documentation site: `python -m sphinx -W -j auto docs docs/_build/html` builds all of it."""

import os
import sys
from pathlib import Path

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
    "sphinx.ext.napoleon",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "public_names",
    "shared_attributes",
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
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_default_options = {
    "members": True,
    "show-inheritance": True,
    "exclude-members": "set_fit_request, set_score_request",  # scikit-learn's own
}
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
strip_signature_backslash = True  # with it a name like margin_ keeps its underscore
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Formulas become MathML when the site is built: no script, no font, no network.
html_math_renderer = "mathml"

# Examples run when they changed; their pictures are kept in docs/gallery between builds.
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
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
    "compress_images": (),
    "parallel": 2,
    "reference_url": {"momentron": None},
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("momentron",),
}
suppress_warnings = ["config.cache"]  # the gallery's settings hold objects that cannot be pickled

html_theme = "pydata_sphinx_theme"
html_title = "momentron"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/mark.svg"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {
        "text": "momentron",
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
html_sidebars = {"index": [], "get-started": [], "benchmarks": []}
