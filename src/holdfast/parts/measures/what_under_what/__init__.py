"""Any quantity under any threat."""
