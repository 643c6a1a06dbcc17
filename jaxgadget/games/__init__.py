"""Rules of games: acting players, legal actions, payoffs, and observations of players and the public."""
