"""Readers of files from elsewhere: what Core ML, Xcode and other tools wrote about a model."""
