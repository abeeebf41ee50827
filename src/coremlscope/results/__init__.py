"""Results as plain data, from which everything is shown, exported and compared."""
