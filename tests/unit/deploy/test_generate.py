"""Generated files of deploy/ are up to date."""

from __future__ import annotations

from deploy.generate import contents


def test_the_generated_files_are_up_to_date() -> None:
    for path, text in contents().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: python -m deploy.generate"
