"""The sentence that matters in an error of Spark, which is mostly stack traces of two languages."""

from __future__ import annotations

import re

_NOT_FROM_HERE = re.compile(r"\s+(?:JVM stacktrace:|at [\w.$]+\(|SQLSTATE: |== )")
_RAISED = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?([A-Za-z_]\w*(?:Error|Exception|InUse|Lost|Taken|NoJava))(?:: (.*))?$")
_OURS = re.compile(r"^(?:localqueue|pyspark\.errors)\.[\w.]+: |^(?:ValueError|OptionError): ")


def root_cause(error: BaseException) -> str:
    """What went wrong in one line: the innermost Python error when there was one, else what Spark says first."""
    text = str(error).strip()
    if not text:
        return type(error).__name__
    raised = [line for line in map(str.strip, _python_part(text)) if _RAISED.match(line)]
    if raised:
        return _OURS.sub("", raised[-1])
    first = _NOT_FROM_HERE.split(text, maxsplit=1)[0]
    return " ".join(first.split())


def _python_part(text: str) -> list[str]:
    """The lines of the last Python traceback in a message, without the Java that follows it."""
    begins = text.rfind("Traceback (most recent call last)")
    if begins < 0:
        return []
    python = text[begins:].partition("JVM stacktrace:")[0]
    return [line for line in python.splitlines() if not line.lstrip().startswith(("at ", "org.apache.", "java."))]
