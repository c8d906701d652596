"""What methods share; no parts themselves."""
