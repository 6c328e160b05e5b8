"""How the documentation is built: `make docs` runs Sphinx on this folder, and treats every warning as an error."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

project = "lila"
author = "The lila developers"
copyright = author
html_title = "lila"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "mathml",
    "parsers",
    "plain_docstrings",
    "repository_links",
]
exclude_patterns = ["_build", "_ext", "**/unfinished", "results/*/jobs"]
nitpick_ignore_regex = [("py:.*", ".*")]
smartquotes = False  # `--help` is no dash

# Pages are Markdown. Headings of up to three levels can be linked to, by the same names as on GitHub.
myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
myst_dmath_double_inline = False

# Tutorials are notebooks written as text. Each is run when it, or a page it belongs to, changes.
nb_execution_mode = "cache"
nb_execution_in_temp = True  # what a tutorial writes does not stay
nb_execution_raise_on_error = True
nb_execution_timeout = 1800  # seconds that a cell may take on a busy machine
nb_merge_streams = True
nb_execution_cache_path = str(HERE / "_build" / "cache")

# The API reference is made of docstrings, which are written in plain text: see _ext/plain_docstrings.py.
autodoc_inherit_docstrings = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_preserve_defaults = True
autodoc_mock_imports = ["lightning"]
toc_object_entries = False  # each name has a heading
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
python_maximum_signature_line_length = 100

html_math_renderer = "mathml"
repository_url = "https://github.com/lila-torch/lila"

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["lila.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {
    "source_repository": repository_url,
    "source_branch": "main",
    "source_directory": "docs/",
    "light_css_variables": {"color-brand-primary": "#0b5f8a", "color-brand-content": "#0b5f8a"},
    "dark_css_variables": {"color-brand-primary": "#6cc0e5", "color-brand-content": "#6cc0e5"},
}
copybutton_exclude = ".linenos, .gp, .go"
