"""What attacks share; no parts themselves."""
