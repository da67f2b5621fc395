"""The address of a store, taken apart: what may be shown of it, what is secret in it, and what goes to the driver.

What is a secret is decided here and nowhere else: the password before the host, and the parameters that `_SECRET`
describes. There is one grammar, whatever the server: in a user name and a password all that could end them is escaped,
as in `%2F` for a slash. An address that does not do so is refused, because a driver would take a piece of the password
for a host or a database, and say so. No error that is made here shows more than what stands before a password.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus, unquote, unquote_plus

from localqueue._dataclass import dataclass, field
from localqueue._named_tuple import NamedTuple

HIDDEN = "***"

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^?]*)(?:\?(.*))?", re.DOTALL)
_HOST = re.compile(r"(?:\[[^\[\]]*\]|[^:\[\]]*)(?::[0-9]*)?")
_BLANK = r" \t-\r"  # what libpq takes for a space
_WORD = re.compile(
    rf"[{_BLANK}]*([^={_BLANK}]+)[{_BLANK}]*=[{_BLANK}]*(?:'((?:[^'\\]|\\.)*)'|(?!')((?:[^\\{_BLANK}]|\\.)*))",
    re.DOTALL,
)
_NO_TEXT = re.compile(r"[\x00\ud800-\udfff]")
_INVISIBLE = re.compile(r"[\x00-\x20\x7f]")
_UNESCAPED = re.compile(r"[\x00-\x20\x7f@\[\]]|%(?![0-9A-Fa-f]{2})|%00")
_UNESCAPED_IN_PARAMETER = re.compile(r"[\x00-\x20\x7f]|%(?![0-9A-Fa-f]{2})|%00")

#: Parameters that are secret, those that say where a store is, and others that may hold an "@" as it is.
_SECRET = re.compile(r"pass(?!file)|pwd|secret|token|scram|properties", re.IGNORECASE)
_WHERE = frozenset({"host", "hostaddr", "port", "dbname", "user", "service", "db"})
_WITH_AT = frozenset({"user", "username", "application_name", "client_name", "appname", "options"})

# Both take time in proportion to the text, whatever it is.
_URL_IN_TEXT = re.compile(r"""[A-Za-z][A-Za-z0-9+.-]{0,19}://[^\s'"`<>]+""")
_SECRET_IN_TEXT = re.compile(
    rf"""(\b(?=\w*(?:{_SECRET.pattern}))\w++(?:=(?=[^\s=])|\s*=\s*(?=["'])))"""
    r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s'",;()]+)""",
    re.IGNORECASE,
)

#: A shorter secret is found by chance in any text, and to hide it there would tell it.
_SHORTEST = 4


@dataclass(frozen=True, slots=True)
class Address:
    """`shown` is for everybody; `url` is for the driver, its user and password written as all drivers read them."""

    url: str = field(repr=False)
    shown: str
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    has_secret_parameters: bool = False

    def mask(self, text: str) -> str:
        """A text of the driver with the secrets hidden, in whatever way they are written there."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            if secret in text:
                text = _occurrences(secret).sub(HIDDEN, text)
        return text

    def cleanse(self, error: BaseException) -> None:
        """Have an error of the driver, and those it came from, show no secret."""
        seen: set[int] = set()
        rest: list[BaseException | None] = [error]
        while rest:
            one = rest.pop()
            if one is not None and id(one) not in seen:
                seen.add(id(one))
                one.args = tuple(self.mask(part) if isinstance(part, str) else part for part in one.args)
                rest += (one.__cause__, one.__context__)

    def unreadable(self, error: BaseException, form: str) -> ValueError:
        """That the driver can not read it. Of a password that an unescaped "&" has cut, it would name a piece."""
        said = "" if self.has_secret_parameters else f" ({self.mask(' '.join(str(error).split()))})"
        return ValueError(f"can not open {self.shown!r}: the driver can not read its parts{said}; use {form}")


def parse(text: str) -> Address:
    """The address of a store on a server: a URL, or `host=... password=...` as PostgreSQL has it.

    ValueError where it can not be read, or in more than one way.
    """
    if _NO_TEXT.search(text):
        raise _refusal(_beginning(text), "it holds bytes that are no text; write them as in %2F")
    found = _URL.fullmatch(text)
    return _of_words(text) if found is None else _of_url(*found.groups(""))


def shown(text: str) -> str:
    """What may be said of a text that is meant as an address, whatever it is."""
    try:
        return parse(text).shown
    except ValueError:
        return _beginning(text)


def conceal(text: str, given: str) -> str:
    """A text that may repeat what was given on a command line, without what is secret in that if it is an address."""
    written = given.partition("=")[2] if given.startswith("-") else given
    try:
        address = parse(written)
    except ValueError:
        address = Address(url=written, shown=_beginning(written), has_secret_parameters=_may_be_meant(written))
    if address.secrets or address.has_secret_parameters:
        for way in sorted(_ways_to_write(written), key=len, reverse=True):
            text = text.replace(way, address.shown)
    return address.mask(text)


def masked(text: str) -> str:
    """A text in which addresses may stand, such as source code, without what is secret in them."""
    text = _URL_IN_TEXT.sub(lambda found: _shown_in_text(found[0]), text)
    return _SECRET_IN_TEXT.sub(rf"\1{HIDDEN}", text)


def _shown_in_text(url: str) -> str:
    try:
        address = parse(url)
    except ValueError:
        return shown(url) if re.search(r"://[^/]*[:@]", url) else url
    return address.shown if "@" in url or address.has_secret_parameters else url


def _may_be_meant(text: str) -> bool:
    """Whether a text that can not be read looks like an address with a secret; JSON does not."""
    named = "=" in text and _SECRET.search(text) is not None
    return "://" in text or (text[:1] not in '{["' and (named or "@" in text.partition(":")[2]))


def is_address(text: str) -> bool:
    """Whether a text is an address, and not the path of a file."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text):
        return True
    return re.match(r"\s*\w+\s*=", text) is not None and _SECRET.search(text) is not None


def _beginning(text: str) -> str:
    """The path of a file or a bare word as it is, else the scheme."""
    if re.match(r"(?:sqlite|lmdb):///", text, re.IGNORECASE) or re.fullmatch(r"[^:=@\s]{1,200}", text):
        return text
    scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]{0,19}(?=:)", text)
    return "..." if scheme is None else f"{scheme[0].lower()}://..."


class _Parameter(NamedTuple):
    name: str
    written: str  # the value as it stands in the address
    value: str

    @property
    def is_secret(self) -> bool:
        """Also where the value is an address itself."""
        return bool(self.written) and (_SECRET.search(self.name) is not None or "://" in self.value)

    @property
    def is_place(self) -> bool:
        return self.name in _WHERE and not self.is_secret

    @property
    def has_stray_at(self) -> bool:
        return "@" in self.name or ("@" in self.written and not self.is_secret and self.name.lower() not in _WITH_AT)


def _of_url(scheme: str, authority: str, path: str, query: str) -> Address:
    scheme = scheme.lower()
    where = f"{scheme}://..."
    userinfo, at, hosts = authority.rpartition("@")
    user, colon, password = userinfo.partition(":")
    pairs = query.split(";" if scheme.startswith("mongodb") and "&" not in query else "&") if query else []
    parameters = [_parameter(pair) for pair in pairs]
    if "@" in path or any(one.has_stray_at for one in parameters):
        if ":" not in authority:
            raise _refusal(where, "an '@' stands where no password ends: write %40")
        raise _unescaped(where, "the password", at or path[:1] or "?")
    _require_escaped(where, "the user name", user, _UNESCAPED)
    _require_escaped(where, "the password", password, _UNESCAPED)
    for one in parameters:
        if one.is_secret:
            _require_escaped(where, f"the parameter {one.name!r}", one.written, _UNESCAPED_IN_PARAMETER)
    if _INVISIBLE.search(hosts + path) or not all(map(_HOST.fullmatch, hosts.split(","))):
        named = "" if at else re.split(r"[^\w.-]", hosts)[0]  # a host, or the user of a password that has no host
        raise _refusal(
            f"{scheme}://{named}...", "its host can not be read: a port is a number, and a space is written %20"
        )
    known = "&".join(pair for pair, one in zip(pairs, parameters, strict=True) if one.is_place)
    rest = f"{hosts}{path}"
    name, driven = quote(user, safe="%+"), query.replace("@", "%40")  # which libpq takes for the end of a password
    return Address(
        url=f"{scheme}://{name}{colon}{quote(password, safe='%+')}{at}{rest}{'?' if query else ''}{driven}",
        shown=f"{scheme}://{name}{'@' if name else ''}{rest}{'?' if known else ''}{known}",
        secrets=_hidden([password, *_values(parameters)], [user, *re.split("[,:/]", rest), *_places(parameters)]),
        has_secret_parameters=any(one.is_secret for one in parameters),
    )


def _parameter(pair: str) -> _Parameter:
    name, _, written = pair.partition("=")
    return _Parameter(unquote(name), written, unquote(written))


def _of_words(text: str) -> Address:
    """The form that PostgreSQL has beside the URL: words such as `host=db`, in quotes if need be."""
    parameters, end = list[_Parameter](), 0
    while found := _WORD.match(text, end):
        written = found[3] if found[2] is None else found[2]
        parameters.append(_Parameter(found[1], written, re.sub(r"\\(.)", r"\1", written, flags=re.DOTALL)))
        end = found.end()
    if not parameters or text[end:].strip(" \t\n\v\f\r"):
        raise _refusal(
            _beginning(text), "it is neither a URL nor words such as host=... dbname=..., quoted where needed"
        )
    return Address(
        url=text,
        shown=" ".join(f"{one.name}={_quoted(one.value)}" for one in parameters if one.is_place) or "postgresql://",
        secrets=_hidden(_values(parameters), _places(parameters)),
        has_secret_parameters=any(one.is_secret for one in parameters),
    )


def _quoted(value: str) -> str:
    escaped = re.sub(r"(['\\])", r"\\\1", value)
    return escaped if escaped == value and value and not _INVISIBLE.search(value) else f"'{escaped}'"


def _values(parameters: Iterable[_Parameter]) -> Iterator[str]:
    """What is secret among parameters; properties are names with values."""
    for one in parameters:
        if one.is_secret:
            yield from (one.written, one.value)
            yield from re.split("[,:]", one.value) if "properties" in one.name.lower() else ()


def _places(parameters: Iterable[_Parameter]) -> Iterator[str]:
    return (one.value for one in parameters if one.is_place)


def _hidden(secrets: Iterable[str], public: Iterable[str]) -> frozenset[str]:
    """The ways to write these secrets, without those that are public as the name of a user or a database."""
    known = {unquote(one) for one in public}
    values = {value for one in secrets for value in (one, unquote(one), unquote_plus(one))}
    ways = {way for value in values - known for way in _ways_to_write(value)}
    return frozenset(way for way in ways if len(way) >= _SHORTEST)


def _ways_to_write(value: str) -> Iterator[str]:
    yield from (value, *(way(value, safe, errors="replace") for way in (quote, quote_plus) for safe in ("", "/")))
    yield from (repr(value)[1:-1], json.dumps(value)[1:-1], re.sub(r"(['\\])", r"\\\1", value))
    yield re.sub(r"[\x00-\x1f\x7f-\x9f]", lambda found: f"\\x{ord(found[0]):02x}", value)


def _occurrences(secret: str) -> re.Pattern[str]:
    """Where it stands in a text. A plain word or number only as a value, not in a sentence that has the same word."""
    found = re.escape(secret)
    if secret.isalpha() or secret.isdigit():
        found = rf"""(?<=["'`=:/@]){found}(?!\w)|(?<!\w){found}(?=["'`@])"""
    return re.compile(found)


def _require_escaped(where: str, what: str, written: str, unescaped: re.Pattern[str]) -> None:
    found = unescaped.search(written)
    if found is not None:
        if found[0] == "%00":
            raise _refusal(where, f"{what} holds %00, which no server takes")
        raise _unescaped(where, what, found[0])


def _unescaped(where: str, what: str, character: str) -> ValueError:
    return _refusal(where, f"{what} holds an unescaped {character!r}: write {quote(character, safe='')}")


def _refusal(where: str, why: str) -> ValueError:
    return ValueError(f"can not open {where!r}: {why}")
