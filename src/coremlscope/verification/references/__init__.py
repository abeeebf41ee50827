"""References: what a model is verified against, and the values that it computes for the same inputs."""
