"""What measures share; no parts themselves."""
