"""A server that speaks S3, in this process, and what goes wrong between it and a client.

What is done to it is done on the wire: clients see answers that never come, requests that are refused, and lists that
are older than what they list.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from moto.server import DomainDispatcherApplication, create_backend_app  # type: ignore[attr-defined]
from werkzeug.serving import WSGIRequestHandler, make_server

BUCKET = "lake"
# What clients find in the environment.
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
Fault = Callable[[str, str], str]


class _Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, *_: Any) -> None:
        pass


class S3Server:
    """The server; `fault` says for a method and a path what happens: "", "slow down", "lost" or "dropped".

    A "lost" answer belongs to a request that was served; one that is "dropped" was not. `frozen` are answers to
    requests for lists, which are given instead of new ones.
    """

    def __init__(self) -> None:
        self.fault: Fault = lambda method, path: ""
        self.requests: list[tuple[str, str]] = []
        self._app = DomainDispatcherApplication(create_backend_app)
        self._lists: dict[str, tuple[str, list[Any], list[bytes]]] | None = None
        self._server = make_server("127.0.0.1", 0, self._serve, threaded=True, request_handler=_Quiet)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        client = boto3.client("s3", endpoint_url=self.url, region_name="us-east-1",
                              aws_access_key_id="test", aws_secret_access_key="test")  # fmt: skip
        client.create_bucket(Bucket=BUCKET)
        self.client = client

    def close(self) -> None:
        self._server.shutdown()

    def names(self, prefix: str) -> list[str]:
        """What is there."""
        found = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return sorted(each["Key"] for page in found for each in page.get("Contents", ()))

    @contextmanager
    def failing(self, fault: Fault) -> Iterator[None]:
        before, self.fault = self.fault, fault
        try:
            yield
        finally:
            self.fault = before

    @contextmanager
    def old_lists(self) -> Iterator[None]:
        """Lists are what they were when they were first asked for."""
        self._lists = {}
        try:
            yield
        finally:
            self._lists = None

    def _serve(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        self.requests.append((method, path))
        fault = self.fault(method, path)
        if fault == "slow down":
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            body = b"<Error><Code>SlowDown</Code><Message>Slow.</Message></Error>"
            start("503 Slow Down", [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
            return [body]
        if fault == "dropped":
            return self._hang_up(environ)
        query = environ.get("QUERY_STRING", "")
        if self._lists is not None and "list-type" in query:
            return self._listed(query, environ, start)
        answer = self._app(environ, start)
        return self._hang_up(environ) if fault == "lost" else answer

    def _hang_up(self, environ: dict[str, Any]) -> Iterable[bytes]:
        environ["werkzeug.socket"].close()
        return []

    def _listed(self, query: str, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        assert self._lists is not None
        if query not in self._lists:
            kept: list[Any] = []
            body = list(self._app(environ, lambda status, headers, *_: kept.extend([status, headers])))
            self._lists[query] = (kept[0], kept[1], body)
        status, headers, body = self._lists[query]
        start(status, headers)
        return body
