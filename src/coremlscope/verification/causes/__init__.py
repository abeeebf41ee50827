"""Causes of differences between a model and a reference, each found by experiments on one operation."""
