"""Core ML's own cost model: the planned costs of operations."""
