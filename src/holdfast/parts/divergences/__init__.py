"""How far two representations are apart: what "near" means."""
