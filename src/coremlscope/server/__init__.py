"""The local web page over saved profiles, which also profiles uploaded models."""
