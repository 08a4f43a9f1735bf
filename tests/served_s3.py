"""S3 over HTTP for tests: moto's implementation, with a log of the requests and failures on demand."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

THROTTLED = ("503 Slow Down", "SlowDown", "Please reduce your request rate.")
DENIED = ("403 Forbidden", "AccessDenied", "Access Denied")
GONE = ("404 Not Found", "NoSuchKey", "The specified key does not exist.")
Failure = tuple[str, str, str]
Request = tuple[str, str, str]


def no_failure(request: Request) -> Failure | None:
    return None


@dataclass
class ServedS3:
    """A running server. `requests`: method, path and query string of each since it was last cleared.

    `fails` chooses the requests that fail, and how.
    """

    requests: list[Request] = field(default_factory=list)
    fails: Callable[[Request], Failure | None] = no_failure
    url: str = ""

    def __post_init__(self) -> None:
        from moto.server import DomainDispatcherApplication, create_backend_app  # imports half of Flask

        self._app = DomainDispatcherApplication(create_backend_app)

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        request = environ["REQUEST_METHOD"], environ["PATH_INFO"], environ.get("QUERY_STRING", "")
        self.requests.append(request)
        if failure := self.fails(request):
            return self._refused(environ, start, *failure)
        return self._app(environ, start)  # type: ignore[no-any-return]

    def _refused(
        self, environ: dict[str, Any], start: Callable[..., Any], status: str, code: str, message: str
    ) -> Iterable[bytes]:
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
        body = b"" if environ["REQUEST_METHOD"] == "HEAD" else text.encode()
        start(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
        return [body]

    def bucket(self, files: Mapping[str, bytes] | None = None) -> str:
        """The name of a new bucket with these objects, which are put past HTTP: a checkpoint has hundreds."""
        from moto.core import DEFAULT_ACCOUNT_ID
        from moto.s3.models import s3_backends

        name = f"bucket-{uuid.uuid4().hex[:12]}"
        self._client().create_bucket(Bucket=name)
        for key, content in (files or {}).items():
            s3_backends[DEFAULT_ACCOUNT_ID]["aws"].put_object(name, key, content)
        return name

    def put(self, bucket: str, key: str, content: bytes) -> None:
        """Put an object as another program does, past the client under test."""
        self._client().put_object(Bucket=bucket, Key=key, Body=content)

    def _client(self) -> Any:
        import boto3

        return boto3.client("s3", endpoint_url=self.url)

    def methods(self) -> list[str]:
        """What the requests were: `LIST` for a GET of a bucket."""
        return ["LIST" if "list-type" in query else method for method, _, query in self.requests]


@contextmanager
def served_s3() -> Iterator[ServedS3]:
    """S3 on a free port; the environment lets every client in this process and its children find it."""
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Handler(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

        def log(self, type: str, message: str, *args: Any) -> None: ...

    s3 = ServedS3()
    server = make_server("127.0.0.1", 0, s3, threaded=True, request_handler=Handler)
    s3.url = f"http://127.0.0.1:{server.server_port}"
    settings = {
        "AWS_ENDPOINT_URL": s3.url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_MAX_ATTEMPTS": "1",  # s3fs retries too, within seconds
    }
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        yield s3
    server.shutdown()
    thread.join(10)
