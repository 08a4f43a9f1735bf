"""Self-contained HTML pages: one style, no script and no network; all text is escaped.

`controlplane.pipeline.report.page` and `controlplane.api.incidents.bundle` render with it. jinja2 is imported when the
first page is rendered.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).with_name("page_templates")


def page_environment(*folders: Path) -> Environment:
    """The templates of these folders, which extend `base.html`. Markup is marked as such; any other value is text."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader([TEMPLATES, *folders]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _visible(value: Any) -> Any:
    """The value with U+FFFD for each character that is not drawn: control characters, and marks that reorder a text."""
    if not isinstance(value, str) or hasattr(value, "__html__") or value.isprintable():
        return value
    return "".join(c if c.isprintable() or c.isspace() else "\ufffd" for c in value)
