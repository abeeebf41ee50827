"""Conversion of one PyTorch program to Core ML and Core AI by Apple's own converters."""
