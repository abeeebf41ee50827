"""Changes of a model: those that are made here, and planned again, and the names of all."""
