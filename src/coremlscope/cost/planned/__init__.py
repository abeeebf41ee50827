"""Core ML's own cost model: what it plans operations to cost."""
