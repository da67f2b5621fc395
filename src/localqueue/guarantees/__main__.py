"""Print `docs/guarantees.md`."""

import sys

from localqueue.guarantees.page import as_markdown

sys.stdout.write(as_markdown())
