"""Certificates of smoothed encoders, from draws f(x + σ z): what holds near x with a stated confidence."""
