"""Where Core ML would run each operation: rules per compute unit, and the search for the cheapest path."""
