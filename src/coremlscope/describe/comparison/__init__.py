"""Compares profiles and distinguishes changes from noise."""
