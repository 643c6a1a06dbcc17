"""Value functions at a depth limit, of histories and of ranges, and games solved down to one."""
