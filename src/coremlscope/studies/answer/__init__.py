"""The answer first: how fast models are on devices, where the time goes, and what to change."""
