"""Child processes: one way to run one, with its messages, limits and end, and several at a time."""
