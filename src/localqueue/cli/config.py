"""The config file: a YAML mapping of a few defaults."""

from __future__ import annotations

import math
import os
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from localqueue.cli.errors import Mistake


def config_path() -> Path:
    """Where the config file is, whether or not it exists."""
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "localqueue" / "config.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Defaults for options that were not given. None means that the file does not say."""

    store_path: str | None = None
    store_url: str | None = None
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
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return cls()
        except UnicodeDecodeError as error:
            raise Mistake(f"config file {path} is not UTF-8 text: {error}") from None
        import yaml

        try:
            found = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise Mistake(f"config file {path} is not valid YAML: {error}") from None
        if found is None:
            return cls()
        if not isinstance(found, dict):
            raise Mistake(f"config file {path} must be a mapping of keys to values, not {found!r}")
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
        """Write the file as a whole: a reader sees the old one or the new one."""
        import yaml

        path = config_path()
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
        try:
            unfinished.write_text(yaml.safe_dump(self.as_dict(), allow_unicode=True), encoding="utf-8")
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
        return path

    def as_dict(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value is not None}


KEYS = tuple(field.name for field in fields(Config))


def _known(key: Any) -> str:
    if key not in KEYS:
        raise ValueError(f"unsupported config key: {key}; use one of {', '.join(KEYS)}")
    return str(key)


def _checked(key: str, value: Any) -> Any:
    if value is None:
        return None
    if not key.endswith("_seconds"):
        if not isinstance(value, str) or not value:
            raise ValueError(f"{key} must be a text that is not empty, not {value!r}")
        return value
    try:
        seconds = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ValueError(f"{key} must be a number of seconds, zero or more, not {value!r}")
    return seconds
