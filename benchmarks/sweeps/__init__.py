"""What sweeps cost: `make bench-sweep`."""
