"""The config file: a YAML mapping of a few defaults. It may hold a password: only its owner reads the file, and what is
wrong in it is named without a value."""

from __future__ import annotations

import math
import os
import re
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from localqueue.cli.errors import Mistake
from localqueue.stores import address
from localqueue.stores.path import require_path
from localqueue.stores.privacy import make_directory, make_file


def config_path() -> Path:
    """Where the config file is, whether or not it exists."""
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "localqueue" / "config.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Defaults for options that were not given. None means that the file does not say."""

    store_path: str | None = None
    store_url: str | None = field(default=None, repr=False)
    namespace: str | None = None
    retry_store_path: str | None = None
    idempotency_store_path: str | None = None
    dead_letter_ttl_seconds: float | None = None
    retry_record_ttl_seconds: float | None = None
    idempotency_record_ttl_seconds: float | None = None

    @classmethod
    def load(cls) -> Config:
        """The config file; an absent one sets nothing."""
        path = config_path()
        if path.exists() and not path.is_file():
            raise Mistake(f"config file {path} is no file")
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return cls()
        except UnicodeDecodeError as error:
            raise Mistake(f"config file {path} is not UTF-8 text: {error}") from None
        import yaml

        try:
            found = yaml.safe_load(text)
        except Exception as error:  # besides its own errors, all that the types of values raise
            raise Mistake(f"config file {path} is not valid YAML{_place(error)}") from None
        if found is None:
            return cls()
        if not isinstance(found, dict):
            raise Mistake(f"config file {path} must be a mapping of keys to values, not {_kind(found)}")
        try:
            return cls().with_values(found)
        except ValueError as error:
            raise Mistake(f"config file {path}: {error}") from None

    def with_values(self, values: dict[Any, Any]) -> Config:
        """A copy with these values, or ValueError for the first that is wrong."""
        changed = replace(self, **{_known(key): _checked(key, value) for key, value in values.items()})
        if changed.store_path is not None and changed.store_url is not None:
            raise ValueError("store_path and store_url are both set; unset one of them")
        return changed

    def save(self) -> Path:
        """Write the file as a whole, for its owner alone: a reader sees the old one or the new one."""
        import yaml

        path = config_path()
        make_directory(path.parent)
        with suppress(PermissionError):  # the directory of somebody else
            path.parent.chmod(0o700)
        unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
        try:
            unfinished.unlink(missing_ok=True)  # left by one that was killed
            make_file(unfinished)
            unfinished.write_text(yaml.safe_dump(self.as_dict(), allow_unicode=True), encoding="utf-8")
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
        return path

    def as_dict(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value is not None}

    def shown(self) -> dict[str, Any]:
        """The same for everybody to see."""
        shown = {"store_url": address.shown}
        return {
            key: shown.get(key, _concealed)(value) if isinstance(value, str) else value
            for key, value in self.as_dict().items()
        }


KEYS = tuple(one.name for one in fields(Config))


def unknown(key: Any) -> str:
    """That a key is not one of the file's; what does not look like a key may be a value."""
    shown = key if isinstance(key, str) and re.fullmatch(r"[\w-]{1,40}", key) else "..."
    return f"unsupported config key: {shown}; use one of {', '.join(KEYS)}"


def _place(error: Exception) -> str:
    """Where the file is wrong; the error itself quotes the line."""
    mark = getattr(error, "problem_mark", None)
    return "" if mark is None else f": see line {mark.line + 1}, column {mark.column + 1}"


def _kind(value: Any) -> str:
    return "an empty text" if value == "" else f"a value of type {type(value).__name__}"


def _concealed(value: str) -> str:
    """A text that is no address, unless somebody mistook it for one."""
    return address.conceal(value, value)


def _known(key: Any) -> str:
    if key not in KEYS:
        raise ValueError(unknown(key))
    return str(key)


def _checked(key: str, value: Any) -> Any:
    if value is None:
        return None
    if not key.endswith("_seconds"):
        if not isinstance(value, str) or not value:
            raise ValueError(f"{key} must be a text that is not empty, not {_kind(value)}")
        if re.search(r"[\x00\ud800-\udfff]", value):
            raise ValueError(f"{key} must be a text, and holds bytes that are none")
        if key.endswith("_path"):
            require_path(value)
        return value
    seconds = math.nan
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        with suppress(ValueError, OverflowError):
            seconds = float(value)
    if not (math.isfinite(seconds) and seconds >= 0):
        shown = repr(address.shown(value)) if isinstance(value, str) else _kind(value)
        raise ValueError(f"{key} must be a number of seconds, zero or more, not {shown}")
    return seconds
