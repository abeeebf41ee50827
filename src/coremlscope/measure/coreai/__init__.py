"""Measures Core AI programs by Core AI itself, through `coreai-core`, in a process of its own."""
