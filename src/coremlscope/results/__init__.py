"""Results as plain data: everything that is shown, exported or compared comes from here."""
