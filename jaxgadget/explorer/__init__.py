"""A page to look at strategies: a public tree, hands × actions, values and differences, in one HTML file."""
