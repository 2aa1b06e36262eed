"""Benchmarks against named peers: one command each, a ratio as the result."""
