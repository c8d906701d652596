"""What a user writes, read and applied: overrides of measures."""
