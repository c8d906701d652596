"""Bound propagation: from an encoder to what its representations cannot leave."""
