"""Parts of models as models of their own: cutting, running, and finding the smallest part with a property."""
