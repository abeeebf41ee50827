"""Agreement of plans with published ones."""
