"""Saved views of the Fleet page over HTTP: who saved them, and what is refused."""

from __future__ import annotations

import httpx
import pytest

URL = "/api/v1/saved-views"


def test_a_view_is_saved_replaced_and_deleted_on_record(admin: httpx.Client) -> None:
    for parameters in ("status=failed", "status=failed&column=Spark"):
        saved = admin.put(f"{URL}/pay%20&%20web", json={"parameters": parameters})
        assert saved.status_code == 200, saved.text
    (found,) = admin.get(URL).json()["views"]
    assert (found["name"], found["parameters"]) == ("pay & web", "status=failed&column=Spark")
    assert found["saved_by"] == "local admin"
    assert admin.delete(f"{URL}/pay%20&%20web").json() == {"views": []}
    again = admin.delete(f"{URL}/pay%20&%20web")
    assert (again.status_code, again.json()["error"]["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("name", "body", "field"),
    [
        ("a%00b", {"parameters": ""}, "name"),
        ("n" * 81, {"parameters": ""}, "name"),
        ("a", {"parameters": "x" * 2001}, "parameters"),
        ("a", {"parameters": 1}, "parameters"),
        ("a", {}, "parameters"),
        ("a", {"parameters": "", "page": "alerts"}, "page"),
    ],
)
def test_what_is_no_view_is_refused_with_the_field(
    admin: httpx.Client, name: str, body: dict[str, object], field: str
) -> None:
    answer = admin.put(f"{URL}/{name}", json=body)
    assert answer.status_code == 422, answer.text
    assert field in answer.text
    assert admin.get(URL).json() == {"views": []}
