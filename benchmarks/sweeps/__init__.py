"""Cost of sweeps: `make bench-sweep`."""
