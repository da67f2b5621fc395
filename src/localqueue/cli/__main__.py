"""`python -m localqueue.cli`."""

from localqueue.cli import main

if __name__ == "__main__":
    main()
