"""Depth-limited search: lookaheads, value functions over multi-valued states, nested search."""
