"""What failures share; no parts themselves."""
