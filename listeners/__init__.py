"""The agent in the Spark driver: record query events, deliver them to the server, execute its commands.

A program calls `listeners.attach.attach` or runs under `python -m listeners.run`. The agent calls the server
over HTTP and Spark over py4j or gRPC, with the standard library and the driver's own pyspark only. The server
imports `listeners.protocol.wire` and `listeners.protocol.catalogue`, which import neither pyspark nor each
other.
"""
