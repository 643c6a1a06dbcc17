"""Compiled algebra of the solvers, independent of games and gadgets."""
