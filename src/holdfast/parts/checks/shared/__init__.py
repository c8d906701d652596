"""What checks share; no parts themselves."""
