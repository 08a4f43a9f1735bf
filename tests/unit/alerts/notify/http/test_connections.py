"""Addresses that a notification must not reach."""

from __future__ import annotations

import socket

import pytest

from alerts.notify.http.connections import connect_checked, is_forbidden


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "::169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::a9fe:a9fe",
        "64:ff9b:1:a9fe:a9:fe00::1",
        "64:ff9b:1:1a9:fe:a9fe::1",
        "64:ff9b:1:1:a9:fea9:fe00:1",
        "::ffff:0:a9fe:a9fe",
        "2001:db8::5efe:169.254.169.254",
        "2001:db8::200:5efe:a9fe:a9fe",
        "fd00:ec2::23",
        "fd00:42::42",
        "2002:a9fe:a9fe::1",
        "2001:0:a9fe:a9fe::1",
        "fe80::1%eth0",
        "fd00:ec2::254",
        "fd20:ce::254",
        "168.63.129.16",
        "::ffff:168.63.129.16",
        "64:ff9b::a83f:8110",
        "100.100.100.200",
        "2002:6464:64c8::1",
        "192.0.0.192",
        "0.0.0.0",
        "::",
        "224.0.0.1",
        "ff02::1",
    ],
)
def test_metadata_services_are_forbidden_in_every_notation(address: str) -> None:
    assert is_forbidden(address)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "::1", "10.1.2.3", "192.168.1.1", "100.100.100.201", "8.8.8.8", "2002:808:808::1",
     "64:ff9b::808:808", "64:ff9b:1::808:808", "2001:db8::5efe:808:808", "fd00:ec2::253", "2606:4700::1111"],
)  # fmt: skip
def test_other_addresses_are_permitted_even_private_ones(address: str) -> None:
    assert not is_forbidden(address)


def test_a_name_that_resolves_to_one_is_not_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("64:ff9b::a9fe:a9fe", 80, 0, 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(OSError, match="not permitted"):
        connect_checked("metadata.example", 80, 1.0)
