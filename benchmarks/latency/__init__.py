"""Calibration of the latency model on published measurements, and its cross-validation."""
