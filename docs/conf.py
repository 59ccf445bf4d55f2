"""Sphinx: Markdown in, one HTML site out. Build it with `make docs`."""

from mrtuner import __version__

project = "MrTuner"
author = "the MrTuner authors"
release = version = __version__

extensions = ["myst_parser"]
exclude_patterns = ["_build"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 3

#: Keep both hyphens of options such as --json.
smartquotes = False

html_theme = "furo"
html_title = f"MrTuner {release}"
html_copy_source = False
html_show_copyright = False
# Blocks of output and of templates are not programs; a quote in them may confuse a lexer.
suppress_warnings = ["misc.highlighting_failure"]
