"""Single layers as models: built by kind and options, planned, estimated and timed."""
