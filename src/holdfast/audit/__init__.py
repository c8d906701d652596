"""Plan, observe, score, record."""
