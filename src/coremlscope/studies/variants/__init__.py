"""Variants of a model by coremltools' transforms: what each changes in size, time and outputs."""
