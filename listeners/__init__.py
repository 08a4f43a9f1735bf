"""The agent in the Spark driver: what it hears, how it keeps it, how it obeys commands.

Called by the user's program (`listeners.attach.attach`) or by `python -m listeners.run`; calls the
server over HTTP and Spark over py4j. Standard library and the driver's own pyspark only. The server
reads `listeners.protocol.wire` and `listeners.protocol.catalogue`, which import neither pyspark nor each other.
"""
