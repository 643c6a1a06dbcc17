"""Rules: who acts, what they may do, what each player and the public observe."""
