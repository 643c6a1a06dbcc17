"""Gadgets: the opponent's decisions above its roots, derived from ranges."""
