# ruff: isort: skip_file
# The names of `__init__.py`, for type checkers.
from localqueue.guarantees.page import (
    as_dict as as_dict,
    as_markdown as as_markdown,
)
from localqueue.guarantees.refusals import check as check
from localqueue.guarantees.row import (
    Guarantee as Guarantee,
    LEVELS as LEVELS,
    Level as Level,
    Rule as Rule,
)
from localqueue.guarantees.table import (
    RULES as RULES,
    guarantees_of as guarantees_of,
    rule as rule,
)
from localqueue.policies.configuration import (
    Configuration as Configuration,
    check_semantics as check_semantics,
    derive_semantics as derive_semantics,
)
