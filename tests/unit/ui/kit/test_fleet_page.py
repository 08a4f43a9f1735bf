"""A page of the fleet: the parameters of its request, and the order of several servers' rows."""

import pytest

from tests.ui import factories
from ui.kit import fleet_page
from ui.kit.fleet_page import FleetPage


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["team=data"], ['team="data"']),
        (["team=a.b", "env=prod", "team=c|d"], ['team=~"a\\\\.b|c\\\\|d"', 'env="prod"']),
        (['team=a"b\\c'], ['team="a\\"b\\\\c"']),
    ],
)
def test_labels_of_one_name_widen_and_those_of_another_narrow(labels: list[str], expected: list[str]) -> None:
    assert fleet_page.matchers(labels) == expected


def test_a_page_asks_for_its_rows_only() -> None:
    params = FleetPage(search=" ", apps=("a", "b"), statuses=("failed",), offset=200).params()
    assert params[:3] == [("app", "a"), ("app", "b"), ("status", "failed")]
    assert ("offset", "200") in params
    assert ("limit", "100") in params


@pytest.mark.parametrize(
    ("search", "sent"),
    [
        ("orders", [("search", "orders")]),
        (' {team=~"pay.*",query!="x"} ', [("label", 'team=~"pay.*",query!="x"')]),
        ("{}", []),
        ("{orders", [("search", "{orders")]),
    ],
)
def test_a_search_in_braces_is_matchers(search: str, sent: list[tuple[str, str]]) -> None:
    assert FleetPage(search=search).params()[:-4] == sent


def test_the_rows_of_several_servers_are_in_the_order_of_one() -> None:
    rows = [
        factories.fleet_query(1, name="ok"),
        factories.fleet_query(2, name="failed", status="failed"),
        factories.fleet_query(
            3, name="newer", alerts=1, alert_severity="critical", since=factories.rfc3339(9e9)
        ),
        factories.fleet_query(4, name="warned", alerts=1, alert_severity="warning", lag_rows=None),
    ]
    shown = [query["name"] for query in fleet_page.merged(rows, FleetPage())]
    assert shown == ["newer", "failed", "warned", "ok"]
    by_lag = FleetPage(sort="-lag_rows", offset=3, limit=5)
    assert [query["name"] for query in fleet_page.merged(rows, by_lag)] == ["warned"]
