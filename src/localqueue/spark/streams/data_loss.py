"""What a stream can not read any more: an error, or a line in the log where the query goes on without it."""

from __future__ import annotations

import logging

_log = logging.getLogger(__name__)


class DataLoss:
    """Raises `error` with the text of a loss; where `failOnDataLoss` is off it logs each loss once."""

    def __init__(self, error: type[Exception], *, fails: bool) -> None:
        self._error = error
        self._fails = fails
        self._logged: set[str] = set()

    def tell(self, what: str, text: str) -> None:
        """`what` is lost; `text` says where, and what to do."""
        if self._fails:
            raise self._error(text)
        if what not in self._logged:
            self._logged.add(what)
            _log.warning("%s", text)
