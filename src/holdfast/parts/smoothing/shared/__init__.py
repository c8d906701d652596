"""What smoothing share; no parts themselves."""
