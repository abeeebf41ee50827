"""Rules about whole functions."""
