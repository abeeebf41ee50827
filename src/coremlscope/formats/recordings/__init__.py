"""Readers of what Apple's recording tools write: exports of Instruments, and readings of power."""
