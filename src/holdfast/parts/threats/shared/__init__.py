"""What threats share; no parts themselves."""
