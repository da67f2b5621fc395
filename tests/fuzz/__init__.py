"""Whatever parses something is given what it does not expect: bad input is an error with a reason, and nothing else.

`python -m tests.fuzz [minutes] [name]` looks for longer than the suite does.
"""
