"""The one place the version is written; the build reads it from here."""

__version__ = "2.0.0"
