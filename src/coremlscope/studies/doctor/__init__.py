"""Diagnoses: what works on this machine, what a log says, and why a model does not run."""
