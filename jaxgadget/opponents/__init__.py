"""Models of an opponent, and responses to them."""
