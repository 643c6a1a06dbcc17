"""Networks as functions of their weights, and folders of checkpoints."""
