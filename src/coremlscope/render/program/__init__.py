"""Reports of recorded programs."""
