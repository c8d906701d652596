"""How the worst noise of a ball is learned instead of assumed."""
