"""Measuring with Core ML on an iPhone or iPad that is connected to this Mac."""
