"""One image against others that somebody names: within which ε no change makes it nearer to one of them."""
