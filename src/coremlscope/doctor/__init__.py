"""Diagnoses: what works on this machine, what a log says, and what keeps a model from running."""
