"""Parts of models as models of their own: cutting and running."""
