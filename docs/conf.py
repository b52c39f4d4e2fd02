"""The site: `make docs` builds it offline, runs its pages, and takes every warning for an error."""

import re
import sys
from importlib.metadata import version as installed
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "noisewise"
author = "the noisewise authors"
copyright = "the noisewise authors, Apache-2.0"
version = release = installed("noisewise")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "commands",
    "evidence",
    "mathml",
]
exclude_patterns = ["_build", "_ext", "_generated", "examples"]
html_theme = "furo"
html_title = "noisewise"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False

myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist"]
myst_heading_anchors = 4
# Pages that run are run again when their text or the library's version changes.
nb_execution_mode = "cache"
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
napoleon_google_docstring = True
napoleon_numpy_docstring = False

# The same pages are read on the web and in the repository, where some of them lie elsewhere.
_ELSEWHERE = {
    "../CONTRIBUTING.md": "contributing.md",
    "../CHANGELOG.md": "changes.md",
    "../benchmarks/README.md": "benchmarks.md",
    "../SECURITY.md": "security.md",
}


def _links(app, name, source):
    for repository, page in _ELSEWHERE.items():
        source[0] = source[0].replace(f"]({repository}", f"]({page}")


def _names(app, what, name, obj, options, lines):
    # scikit-learn's names end with an underscore, which is a link to Sphinx.
    lines[:] = [re.sub(r"(?<![`\w])([a-z]\w*_)(?=[,:;.\s]|$)", r"``\1``", line) for line in lines]


def setup(app):
    app.connect("autodoc-process-docstring", _names, priority=400)
    app.connect("source-read", _links)
