"""The one driver, memory and linear programs."""
