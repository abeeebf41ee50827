"""Measurements of the project itself: how fast, how exact. They publish tables and never gate a build."""
