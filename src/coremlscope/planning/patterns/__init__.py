"""The language of patterns: which forms of which operations a fact about a unit, chip and system concerns."""
