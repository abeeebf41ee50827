"""Readers and writers of Core ML model files, from and to `ir.Model`."""
