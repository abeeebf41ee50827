"""What runs a model here: engines, and a function compiled, loaded and run."""
