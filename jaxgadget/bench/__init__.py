"""Benchmarks against other solvers."""
