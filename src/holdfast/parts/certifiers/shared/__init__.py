"""What certifiers share; no parts themselves."""
