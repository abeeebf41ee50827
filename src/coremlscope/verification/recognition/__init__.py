"""Recognition of operations by their values."""
