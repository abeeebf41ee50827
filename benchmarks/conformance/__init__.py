"""Runs coremltools' own test suite on the drop-in runtime."""
