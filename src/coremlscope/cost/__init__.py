"""What running an operation costs: Core ML's own cost model."""
