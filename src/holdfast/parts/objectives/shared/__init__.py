"""What objectives have in common."""
