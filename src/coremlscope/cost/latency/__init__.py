"""How long predictions take on Apple chips: an estimate, fitted to published latencies."""
