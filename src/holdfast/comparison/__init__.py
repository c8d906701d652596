"""Audits side by side: many encoders, from several run folders, on the same images."""
