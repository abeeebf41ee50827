"""How often `verify` passes what differs, fails what is sound, and names a cause that does not hold."""
