"""Whether an encoder can flatter itself in an audit by hiding from the search."""
