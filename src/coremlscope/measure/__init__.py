"""Measures models by phase and by operation."""
