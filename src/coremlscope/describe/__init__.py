"""Describes models: interface, operations, weights, preprocessing and declared work."""
