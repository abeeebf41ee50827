"""From a model to predictions: which function, which shapes, compiled, loaded and run."""
