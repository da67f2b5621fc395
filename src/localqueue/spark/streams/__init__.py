"""Reading a queue as a stream: `subscribe` follows the journal, `consume` claims messages."""
