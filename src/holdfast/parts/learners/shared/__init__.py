"""What learners share; no parts themselves."""
