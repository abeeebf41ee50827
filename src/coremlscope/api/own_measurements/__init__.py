"""The user's own measurements of devices, which refine our estimates: reading, checking, keeping them."""
