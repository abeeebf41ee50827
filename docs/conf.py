"""How Sphinx builds the documentation: `make site` runs it strictly over `out/docs`."""

import json
from pathlib import Path

from docutils import nodes

project = "coremlscope"
html_title = "coremlscope"
language = "en"
extensions = ["myst_parser"]
html_theme = "furo"
html_show_copyright = False
html_static_path = ["images", "_static"]
html_css_files = ["site.css"]
html_favicon = "_static/favicon.svg"
html_search_scorer = str(Path(__file__).parent / "_static" / "scorer.js")
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

#: Words that people search for, as index terms of the page that answers them, which the search puts first.
SEARCHED = {
    "index": "license licence licensing apache home",
    "start": "install installation pip setup slow latency speed",
    "guides/neural-engine": "ANE NPU neural engine fallback offload",
    "guides/compression": "compress quantize quantise quantization palettize prune shrink smaller size",
    "guides/failures": "error errors fail fails failed crash load loading model exception",
    "guides/recording": "slow why app lag",
    "guides/report": "webcam camera image preview serve",
    "guides/tokens": "token tokens llm language speed",
    "guides/drop-in": "MLComputePlan linux windows docker predict",
    "guides/onnx-runtime": "ONNX onnxruntime provider execution",
}
html_js_files = ["site.js", (None, {"body": f"globalThis.SEARCHED = {json.dumps(SEARCHED)};"})]
DESCRIPTION = "How fast a Core ML model is on every Apple chip, where it runs, why, and what to change."


def add_terms(app, doctree):
    """Adds the words of a page to its terms."""
    words = SEARCHED.get(app.env.docname)
    if words:
        doctree.append(nodes.meta(name="keywords", content=", ".join(words.split())))


def add_card(app, page, template, context, doctree):
    """Adds what other sites show of a link."""
    title = context.get("title", project)
    context.setdefault("metatags", "")
    # The theme's captions are headings without a level.
    tree = context.get("furo_navigation_tree", "")
    context["furo_navigation_tree"] = tree.replace('role="heading"', 'role="heading" aria-level="2"')
    for name, content in (("title", title), ("description", DESCRIPTION), ("type", "website")):
        context["metatags"] += f'\n<meta property="og:{name}" content="{content}">'
    context["metatags"] += f'\n<meta name="description" content="{DESCRIPTION}">'


def setup(app):
    """Connects both to Sphinx."""
    app.connect("doctree-read", add_terms)
    app.connect("html-page-context", add_card, priority=900)
