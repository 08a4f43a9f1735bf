"""A PySpark program that does what it reads: each line is Python code as a JSON text, and is answered by a line.

The answer: `{"value": …}`, what the code left in `answer`, or `{"error": traceback}`. Spark prints to the log.
"""

import json
import os
import sys
import traceback

answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)
names = {"__name__": "__main__"}

for line in sys.stdin:
    try:
        exec(json.loads(line), names)
        answer = {"value": names.pop("answer", None)}
    except Exception:
        answer = {"error": traceback.format_exc()}
    answers.write(json.dumps(answer) + "\n")
