"""coremltools' own test suite, run against the drop-in runtime."""
