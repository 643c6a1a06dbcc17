"""From rules to arrays: history trees, cuts, sequence forms and forests. NumPy only."""
