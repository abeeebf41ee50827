"""Verification of a model against a reference: pairing, localisation, causes and fixes of differences."""
