"""Linear programs of games: their decisions, matrices and runs by HiGHS, and checked solutions."""
