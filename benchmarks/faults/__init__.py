"""Faults planted at random into converted networks, and how many of them `verify` finds."""
