"""Training encoders: one loop for every method, attack and ball; views, adversary, optimiser, checkpoints, log."""
