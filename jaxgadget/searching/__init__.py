"""Depth-limited search: lookaheads, portfolios, nested search, players that search."""
