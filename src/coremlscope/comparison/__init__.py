"""What differs between profiles, and whether it is more than noise."""
