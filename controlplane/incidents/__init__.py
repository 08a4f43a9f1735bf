"""Incidents: failures of several queries with one cause become one thing to look at, to page about and to try.

`causes` names what may have caused a failure, `engine` finds the failures that share a cause, `sentences` states the
extent: all pure. `log` is the shell, called by `controlplane.supervision`; it stores what it finds and shows it in the window.
"""
