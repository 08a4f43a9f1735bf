"""The server: takes in what agents send, stores and judges it, carries out actions.

Called by people and programs over HTTP (`controlplane.api`) and by the command line
(`controlplane.cli`). Calls `alerts` for rules and labels, `listeners.protocol.wire` and
`listeners.protocol.catalogue` for the language of the agents.
"""
