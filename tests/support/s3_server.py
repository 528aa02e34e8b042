"""A server that speaks S3, in a thread of the tests."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest


@contextmanager
def s3_server(content: Mapping[str, bytes] | None = None) -> Iterator[str]:
    """The address of a server with a bucket called `bucket`, which holds ``content`` by its keys, for all to read."""
    pytest.importorskip("s3fs", reason="s3fs is not installed")
    server_module = pytest.importorskip("moto.server", reason="moto[server] is not installed")
    import boto3

    before = dict(os.environ)
    os.environ.update(
        AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="secret", AWS_DEFAULT_REGION="us-east-1"
    )
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    server._thread.name = "s3 server"
    address = "http://{}:{}".format(*server.get_host_and_port())
    client = boto3.client("s3", endpoint_url=address)
    client.create_bucket(Bucket="bucket", ACL="public-read")
    for key, body in (content or {}).items():
        client.put_object(Bucket="bucket", Key=key, Body=body, ACL="public-read")
    client.close()
    try:
        yield address
    finally:
        server.stop()
        os.environ.clear()
        os.environ.update(before)
