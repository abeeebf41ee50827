"""Plans and estimates of a model for devices."""
