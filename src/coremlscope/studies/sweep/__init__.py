"""Sweeps: many models under many settings on many devices, with results that are kept in one table."""
