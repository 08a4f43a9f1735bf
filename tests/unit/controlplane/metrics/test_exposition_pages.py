"""Pages of /metrics: rendered once for all clients, and never for more than a tenth of the time."""

from __future__ import annotations

import gzip
import threading

from controlplane.metrics.exposition_pages import MAX_PAGES, ExpositionPages


class Renderer:
    """Renders pages that take `seconds` of a clock that only it moves."""

    def __init__(self, seconds: float):
        self.now, self.seconds, self.rendered = 100.0, seconds, 0

    def __call__(self) -> tuple[list[bytes], str]:
        self.now += self.seconds
        self.rendered += 1
        return [b"page ", f"{self.rendered}\n".encode()], "text/plain"


def test_a_page_is_shared_for_ten_times_as_long_as_it_took() -> None:
    render = Renderer(0.5)
    pages = ExpositionPages(lambda: render.now)
    first = pages.page("text", render)
    render.now += 4.9
    assert pages.page("text", render) is first and round(pages.age(first), 6) == 4.9
    render.now += 0.2
    assert pages.page("text", render).body == b"page 2\n"
    assert gzip.decompress(first.compressed) == b"page 1\n"


def test_a_page_that_costs_nothing_is_never_old() -> None:
    render = Renderer(0.001)
    pages = ExpositionPages(lambda: render.now)
    assert [pages.page("text", render).body for _ in range(3)] == [b"page 1\n", b"page 2\n", b"page 3\n"]


def test_no_page_is_older_than_a_scrape_interval() -> None:
    render = Renderer(60.0)
    pages = ExpositionPages(lambda: render.now)
    pages.page("text", render)
    render.now += 15.1
    assert pages.page("text", render).body == b"page 2\n"


def test_kinds_have_pages_of_their_own_and_few_are_kept() -> None:
    render = Renderer(1.0)
    pages = ExpositionPages(lambda: render.now)
    for number in range(MAX_PAGES + 1):
        pages.page(number, render)
    assert len(pages._pages) == MAX_PAGES and 0 not in pages._pages


def test_clients_that_come_together_share_one_rendering() -> None:
    entered, leave, rendered = threading.Event(), threading.Event(), []

    def render() -> tuple[list[bytes], str]:
        rendered.append(1)
        entered.set()
        assert leave.wait(30)
        return [b"page"], "text/plain"

    now = [0.0]
    pages = ExpositionPages(lambda: now[0])
    bodies: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: bodies.append(pages.page("text", render).body)) for _ in range(5)
    ]
    threads[0].start()
    assert entered.wait(30)
    for thread in threads[1:]:
        thread.start()
    now[0] = 2.0  # rendering takes 2 s
    leave.set()
    for thread in threads:
        thread.join(30)
    assert bodies == [b"page"] * 5
    # The others asked before the page was complete.
    assert len(rendered) == 1


def test_the_page_before_is_served_while_it_is_rendered_again() -> None:
    entered, leave = threading.Event(), threading.Event()
    quick = Renderer(1.0)
    pages = ExpositionPages(lambda: quick.now)
    first = pages.page("text", quick)
    quick.now += 11.0

    def slow() -> tuple[list[bytes], str]:
        entered.set()
        assert leave.wait(30)
        return quick()

    thread = threading.Thread(target=lambda: pages.page("text", slow))
    thread.start()
    assert entered.wait(30)
    assert pages.page("text", quick) is first
    leave.set()
    thread.join(30)
    assert pages.page("text", quick).body == b"page 2\n"
