"""Nothing that `attach` meets is raised at the user."""

import logging

from listeners import attach


def test_a_session_that_cannot_be_attached_to_is_a_line_in_the_log(caplog):
    with caplog.at_level(logging.WARNING):
        attachment = attach.attach(object())
    assert not attachment
    assert "not attached" in caplog.text and "Connect" in caplog.text


def test_what_stands_in_then_lets_the_program_run_as_it_is():
    attachment = attach.NotAttached()

    @attachment.factory("orders")
    def build():
        return "built"

    assert build() == "built"
    attachment.detach()
