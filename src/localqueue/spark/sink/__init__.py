"""Writing rows into a queue: tasks stage them, the driver puts them once."""
