"""Print the table of brokers that `docs/providers.md` holds."""

import sys

from localqueue.brokers.capabilities import as_markdown

sys.stdout.write(as_markdown())
