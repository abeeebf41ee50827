"""Rules about the Neural Engine."""
