"""Measuring with the embedded engines, in this process or in one of its own."""
