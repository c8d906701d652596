"""What quantities share; no parts themselves."""
