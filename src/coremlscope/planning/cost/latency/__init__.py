"""Estimates of how long predictions take on Apple chips, fitted to published latencies."""
