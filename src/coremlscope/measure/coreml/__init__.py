"""Measuring with Apple's own Core ML, through coremltools."""
