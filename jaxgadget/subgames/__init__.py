"""The main job: every subgame below a cut re-solved."""
