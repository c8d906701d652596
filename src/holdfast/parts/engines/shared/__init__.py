"""What engines share; no parts themselves."""
