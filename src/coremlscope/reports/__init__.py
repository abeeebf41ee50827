"""From a result to text: the terminal, the page, Markdown, CSV, JSON, traces, cards of notebooks."""
