"""Content security policy and preload headers of the dashboard."""

from pathlib import Path

from ui import security_headers


def test_the_policy_allows_only_the_inline_scripts_of_streamlits_page() -> None:
    policy = security_headers.policy(
        "<html><script>\n  window.x = 1\n</script><script src='a.js'></script></html>"
    )
    assert policy.count("sha256-") == 1
    assert "unsafe-inline" not in policy.split("style-src")[0]
    assert "img-src 'self' data: blob:;" in policy


def test_the_large_scripts_of_a_table_are_preloaded(tmp_path: Path) -> None:
    large = "x" * security_headers.MIN_PRELOAD_BYTES
    (tmp_path / "BidiComponent.a1.js").write_text(
        f'import{{a}}from"./arrow.b2.js";import"./tiny.c3.js";{large}'
    )
    (tmp_path / "arrow.b2.js").write_text(f"import {{x}} from './first.d4.js';{large}")
    (tmp_path / "tiny.c3.js").write_text("import'./gone.js'")
    (tmp_path / "first.d4.js").write_text(large)
    index = '<link rel="modulepreload" href="./static/js/first.d4.js">'
    assert security_headers.preloads(tmp_path, index) == (
        "<./static/js/BidiComponent.a1.js>; rel=modulepreload, <./static/js/arrow.b2.js>; rel=modulepreload"
    )


def test_the_installed_streamlit_has_the_scripts_and_the_header_stays_small() -> None:
    named = security_headers.preloads(
        security_headers.SCRIPTS, security_headers.INDEX.read_text(encoding="utf-8")
    )
    assert "BidiComponent" in named
    assert len(named) < 2000  # proxies give all headers together four kilobytes


def test_a_deep_link_finds_the_server_at_the_root_and_its_script_is_allowed() -> None:
    page = security_headers.with_base_url("<html><head></head></html>")
    assert {"/", "/query", "/server"} <= security_headers.PAGES
    assert "BACKEND_BASE_URL: location.origin" in page
    assert "|query|" in page
    assert security_headers.policy(page).count("sha256-") == 1
