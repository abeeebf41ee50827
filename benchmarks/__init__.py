"""Measurements of the project itself: what is fast, what is exact. They publish tables and never gate a build."""
