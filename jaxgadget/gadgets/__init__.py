"""From ranges to the opponent's way in."""
