"""Which addresses a webhook goes to, what is shown of them, and what proves where it comes from."""

from __future__ import annotations

import time

import pytest

from localqueue.notifications import SSEListener, WebhookNotification, WebhookReceiver
from localqueue.notifications.dialer import AddressRefused, Dialer, is_public
from localqueue.notifications.endpoint import parse_endpoint
from localqueue.notifications.event import Event
from localqueue.notifications.signature import sign, verify

PRIVATE = [
    "127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
    "100.100.100.200", "192.0.0.192", "168.63.129.16", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255",
    "198.18.0.1", "203.0.113.5", "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:169.254.169.254",
    "64:ff9b::a00:1", "2002:7f00:1::", "2001::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1",
    "ff02::1", "2001:db8::1",
]  # fmt: skip
PUBLIC = ["8.8.8.8", "93.184.216.34", "::ffff:8.8.8.8", "2606:4700::1111", "64:ff9b::808:808"]


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_that_is_not_on_the_public_internet_is_refused(address: str) -> None:
    assert not is_public(address)
    host = f"[{address}]" if ":" in address else address
    if "%" not in host:
        with pytest.raises(AddressRefused, match="is not on the public internet; allow_private=True"):
            WebhookNotification(f"http://{host}/hook")
        WebhookNotification(f"http://{host}/hook", allow_private=True)


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_not_refused(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST.", "a.localhost"])
def test_the_name_of_this_host_is_refused(host: str) -> None:
    with pytest.raises(AddressRefused):
        WebhookNotification(f"https://{host}/")


@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "127.1", "017700000001"])
def test_an_address_in_disguise_is_refused_when_it_is_resolved(host: str) -> None:
    with pytest.raises((AddressRefused, OSError)):
        Dialer(allow_private=False).addresses(parse_endpoint(f"http://{host}/"))


def test_one_private_address_among_several_is_enough_to_refuse() -> None:
    dialer = Dialer(allow_private=False, resolve=lambda host, port: ["8.8.8.8", "10.0.0.1"])
    with pytest.raises(AddressRefused, match=r"'http://some\.example/' leads to 10\.0\.0\.1"):
        dialer.addresses(parse_endpoint("http://some.example"))


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ftp://host/", "must begin with http:// or https://"),
        ("host/path", "must begin with http:// or https://"),
        ("http://", "names no host"),
        ("http://:80/", "names no host"),
        ("http://host:0/", "no port"),
        ("http://host:99999/", "can not be read"),
        ("http://[::1/", "can not be read"),
        ("http://me:secret@host/a b", "must be escaped"),
        ("http://me:secret@host:x/", "can not be read"),
        ("http://höst/", "must be escaped"),
        ("http://host/\r\nX: y", "must be escaped"),
    ],
)
def test_what_is_no_address_is_refused_and_no_password_shown(url: str, why: str) -> None:
    for make in (WebhookNotification, SSEListener):
        with pytest.raises(ValueError, match=why) as refused:
            make(url)
        assert "secret" not in str(refused.value)


def test_settings_that_make_no_sense_are_refused() -> None:
    url = "https://some.example/hook"
    for wrong, why in (
        ({"retries": -1}, "retries must be a whole number, at least 0, got -1"),
        ({"max_pending": 0}, "max_pending must be a whole number, at least 1, got 0"),
        ({"timeout": 0}, "timeout must be a positive number of seconds, got 0"),
        ({"secret": ""}, "secret cannot be empty"),
        ({"headers": {"Host": "x"}}, "'Host' can not be the name of a header of yours"),
        ({"headers": {"X-Y": "a\r\nb"}}, "the value of the header 'X-Y' must be a text of one line"),
    ):
        with pytest.raises(ValueError, match=why):
            WebhookNotification(url, **wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="urls cannot be empty"):
        WebhookNotification([])
    with pytest.raises(ValueError, match="secret cannot be empty"):
        WebhookReceiver(secret=[])


@pytest.mark.parametrize(
    ("start", "location", "there"),
    [
        ("http://h/a", "/b?c", "http://h/b?..."),
        ("http://h:81/a", "http://h/b", "http://h/b"),
        ("http://h/a", "https://h/a", "https://h/a"),
        ("http://h/a", "https://other/a", None),
        ("https://h/a", "http://h/a", None),
        ("http://h/a", "b", None),
    ],
)
def test_a_redirect_leads_to_the_same_host_and_not_away_from_tls(start: str, location: str, there: str | None) -> None:
    endpoint = parse_endpoint(start)
    if there is None:
        with pytest.raises(ValueError):
            endpoint.follow(location)
    else:
        assert endpoint.follow(location).shown == there


def test_a_signature_holds_for_its_secret_its_body_and_its_time() -> None:
    header = sign("secret", b"body", at=1000)
    assert verify("secret", header, b"body", now=1299) and verify(b"secret", header, b"body", now=701)
    assert not verify("secret", header, b"body", now=1301) and not verify("secret", header, b"body", now=699)
    assert verify("secret", header, b"body", tolerance=1000, now=1900)
    assert not verify("other", header, b"body", now=1000)
    assert not verify("secret", header, b"other", now=1000)
    assert not verify("secret", header.replace("t=1000", "t=1001"), b"body", now=1000)
    assert verify("secret", sign("secret", b"body"), b"body", now=time.time())


def test_one_of_several_signatures_is_enough_while_a_secret_is_exchanged() -> None:
    old, new = sign("old", b"body", at=1000), sign("new", b"body", at=1000)
    both = f"{old},{new.partition(',')[2]}"
    assert verify("old", both, b"body", now=1000) and verify("new", both, b"body", now=1000)
    assert not verify("other", both, b"body", now=1000)


@pytest.mark.parametrize(
    "header", [None, "", "t=1", "v1=00", "t=x,v1=00", "t=1000,v1=ä", "t=1000,v1=" + "0" * 64 + ","]
)
def test_a_header_that_can_not_be_read_is_not_a_signature(header: str | None) -> None:
    assert not verify("secret", header, b"body", now=1000)


def test_what_is_posted_is_small_in_bytes_whatever_a_queue_is_called() -> None:
    event = Event(event_id="0011223344556677-1", queue="ä" * 200, message_id="0" * 32, at=1e9)
    assert event.as_json().isascii() and len(event.as_json().encode()) < 2000
