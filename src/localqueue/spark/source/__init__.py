"""Reading a view of a store as a table: what to read, how to read it, and what becomes of the rows."""
