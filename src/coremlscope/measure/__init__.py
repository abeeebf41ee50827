"""Measuring a model: what a run takes, phase by phase and operation by operation."""
