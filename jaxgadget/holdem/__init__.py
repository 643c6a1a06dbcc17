"""Hold'em: cards, ranges, bet menus, spots, and payoffs of pairs of hands."""
