"""Styles of the statuses that the server reports."""

from ui.kit import statuses


def test_every_status_has_a_style() -> None:
    names = "starting running idle busy lagging stuck failed restarting backing_off stopped finished lost unreachable retired"
    assert set(statuses.STATUSES) == set(names.split())
    assert statuses.status("brand_new<b>").label == "Brand newb"
    assert statuses.status(None).label == "Unknown"
