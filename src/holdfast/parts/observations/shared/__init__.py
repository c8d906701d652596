"""What observations share; no parts themselves."""
