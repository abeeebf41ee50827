"""What Core ML's own cost model says that operations cost."""
