"""The same operations on every store at once."""
