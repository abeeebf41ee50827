"""How Sphinx builds the documentation: `make site` runs it strictly over `out/docs`."""

project = "coremlscope"
html_title = "coremlscope"
language = "en"
extensions = ["myst_parser"]
html_theme = "furo"
html_show_copyright = False
html_static_path = ["images"]
html_extra_path = [
    "_extra",
    "profile.schema.json",
    "check.schema.json",
    "runner.schema.json",
    "variants.schema.json",
    "verification.schema.json",
]
exclude_patterns = ["_extra"]
# Pages as Markdown, too: `_sources/start.md`, which llms.txt lists.
html_copy_source = True
html_sourcelink_suffix = ""
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
nitpicky = True
# Code of other languages, and output of terminals.
suppress_warnings = ["misc.highlighting_failure"]
