"""Calibration of the latency model on published measurements, and its validation on those it did not see."""
