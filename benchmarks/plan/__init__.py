"""How well plans agree with published ones."""
