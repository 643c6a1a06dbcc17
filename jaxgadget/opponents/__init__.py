"""Models of opponents, and responses to them."""
