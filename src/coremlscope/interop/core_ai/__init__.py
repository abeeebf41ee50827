"""Importers of what Core AI and its tools wrote about a model."""
