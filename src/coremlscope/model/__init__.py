"""The model as data: its graph (ir), Apple's schema, and values in and out (features)."""
