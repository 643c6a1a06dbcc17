"""From arrays to strategies, in JAX: sweeps, regrets, best responses, gadgets."""
