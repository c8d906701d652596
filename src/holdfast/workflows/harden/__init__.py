"""Hardening encoders: `plan` says what is asked, `run` does it, `outcome` says what changed."""
