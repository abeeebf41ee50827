"""Core AI: reading of `.aimodel` bundles, and their translation into the operations of ML Programs."""
