"""coremlscope: profile, inspect and run Core ML models on any machine."""

__version__ = "0.1.0"
