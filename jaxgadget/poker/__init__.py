"""Hold'em: cards, ranges, bet menus, spots, and what pairs of hands get at the end."""
