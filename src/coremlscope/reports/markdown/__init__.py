"""Markdown reports, for pull requests."""
