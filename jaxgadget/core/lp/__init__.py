"""Linear programs of games: decisions, matrices, calls of HiGHS, and verified solutions."""
