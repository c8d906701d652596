"""Chances of failure under given noises, and under the worst one that can be learned."""
