"""Execution: selects, binds, compiles, loads and runs the functions of a model."""
