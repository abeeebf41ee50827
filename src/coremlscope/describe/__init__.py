"""What a model is: its interface, operations, weights, preprocessing and declared work."""
