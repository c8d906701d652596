"""How the probability of a failure under a noise is estimated, where plain counting would take too long."""
