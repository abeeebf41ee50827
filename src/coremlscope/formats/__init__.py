"""Readers and writers: every container in which Core ML models are kept, to and from `ir.Model`."""
