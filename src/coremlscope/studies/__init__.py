"""Work on many models, variants, parts or machines."""
