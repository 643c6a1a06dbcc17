"""Re-solving of subgames below a cut, and nested search."""
