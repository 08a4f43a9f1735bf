"""Styles of the statuses that the server reports."""

from ui.kit import statuses


def test_every_status_of_the_contract_has_its_look() -> None:
    words = (
        "starting running idle busy lagging stuck failed restarting backing_off stopped finished lost retired"
    )
    assert set(statuses.STATUSES) == set(words.split())
    assert statuses.status("brand_new<b>").word == "Brand newb"
    assert statuses.status(None).word == "Unknown"
