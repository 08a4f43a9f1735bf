"""The command line: `controlplane …`. One file a family of commands, loaded when it is called for.

Commands that speak to a server need only `cli.client`; `serve`, `up` and `token` load the server
itself. A mistake of the user's ends with exit 2 and one clear line on standard error.
"""
