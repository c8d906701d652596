"""Every formula of the five papers that Holdfast computes, next to the authors' code or an independent computation."""
