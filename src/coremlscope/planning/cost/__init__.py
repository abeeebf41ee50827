"""Costs of operations: Core ML's own cost model, and estimated latencies."""
