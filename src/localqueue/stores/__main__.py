"""Print the table of stores that `docs/stores.md` holds."""

import sys

from localqueue.stores.capabilities import as_markdown

sys.stdout.write(as_markdown())
