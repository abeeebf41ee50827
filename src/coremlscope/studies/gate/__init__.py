"""A gate for models: limits of latency, placement, size, memory and precision, and a baseline."""
