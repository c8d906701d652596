"""What estimators share; no parts themselves."""
