"""Recording what running programs do with Core ML, and finding mistakes in the recordings."""
