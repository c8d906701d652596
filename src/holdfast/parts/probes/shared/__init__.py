"""What probes share; no parts themselves."""
