"""Requests that come past the proxy; the whole way is in tests/security/test_log_in.py."""

import pytest

from ui.proxy_check import is_within, networks_of


@pytest.mark.parametrize(
    ("address", "inside"),
    [
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("11.0.0.1", False),
        ("::1", True),
        ("::2", False),
        ("", False),
        ("proxy.example", False),
    ],
)
def test_an_address_lies_in_the_networks_or_not(address: str, inside: bool) -> None:
    assert is_within(address, networks_of("10.0.0.0/8, ::1")) == inside


def test_a_network_is_checked() -> None:
    with pytest.raises(ValueError, match="nonsense"):
        networks_of("nonsense")
