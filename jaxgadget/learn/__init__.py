"""Networks, examples, training."""
