"""The local web page that opens models."""
