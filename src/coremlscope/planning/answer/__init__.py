"""The one answer of a model on a device under a setting, from the plans and estimates of all settings."""
