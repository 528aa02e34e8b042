"""Read ranges of objects of S3 by obstore, which takes less processor time than s3fs."""

# s3fs finds the files, and reads them where obstore is not installed or cannot be used: users know
# the credentials, the errors and the options of s3fs. obstore only makes GETs, with the credentials
# of s3fs. A failed GET is repeated by s3fs, so all errors come from s3fs.
#
# After a process has used obstore, a forked child lacks obstore's threads, and calls would wait for
# them for ever. So the child reads by s3fs.

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, ClassVar, Final, NamedTuple
from weakref import WeakKeyDictionary

from ...core.home_process import in_forked_children

UNDERSTOOD: Final = frozenset(
    {"anon", "client_kwargs", "config_kwargs", "endpoint_url", "key", "profile", "secret", "token"}
    | {"asynchronous", "loop", "skip_instance_cache", "use_listings_cache"}
)
"""Options of s3fs under which obstore reads the same bytes; with other options, s3fs reads."""

UNDERSTOOD_BY_CLIENT: Final = frozenset({"endpoint_url", "region_name"})
UNDERSTOOD_BY_CONFIG: Final = frozenset({"max_pool_connections", "retries"})

MOST_FAILURES: Final = 3
"""Failed GETs in a row after which a bucket, perhaps out of obstore's reach, is left to s3fs."""

KEPT_FOR: Final = timedelta(minutes=5)
"""How long credentials are used before s3fs is asked again, and renews them."""


class RangeAnswer(NamedTuple):
    """The answer of a server to the request of a range.

    Attributes:
      data: the bytes of the range; None if the condition was not met.
      tag: the ETag of the content; None if missing.
      size: of the whole content, in digits; empty or a star if not known.
    """

    data: bytes | None = None
    tag: str | None = None
    size: str = ""


@dataclass
class _ReadBucket:
    """A bucket as obstore reads it.

    Attributes:
      store: the object of obstore; None before the first GET.
      failures: failed GETs in a row, without failures for a missing or changed object.
    """

    store: Any = None
    failures: int = 0


class _ProcessUses:
    """The use of obstore in this process.

    Attributes:
      has_used: whether this process has called obstore.
      is_forked: whether a parent process had, so that obstore cannot be called here.
      buckets: for each file system of s3fs, the buckets by name.
    """

    has_used = False
    is_forked = False
    buckets: ClassVar[WeakKeyDictionary[Any, dict[str, _ReadBucket]]] = WeakKeyDictionary()


@in_forked_children
def _in_child() -> None:
    _ProcessUses.is_forked = _ProcessUses.is_forked or _ProcessUses.has_used
    _ProcessUses.buckets = WeakKeyDictionary()


async def read_range(
    system: Any, bucket: str, key: str, start: int, end: int, tag: str | None
) -> RangeAnswer | None:
    """The bytes of an object from ``start`` to ``end``; None if s3fs has to read them.

    Args:
      system: the file system of s3fs.
      bucket: of the object.
      key: of the object.
      start: of the range.
      end: of the range.
      tag: the ETag that the object must have; None for any.
    """
    if _ProcessUses.is_forked or not _is_installed() or not _understands(system):
        return None
    import obstore

    found = _ProcessUses.buckets.setdefault(system, {}).setdefault(bucket, _ReadBucket())
    if found.failures >= MOST_FAILURES:
        return None
    options = {"range": (start, end)} | ({} if tag is None else {"if_match": tag})
    try:
        if found.store is None:
            found.store = await _store(system, bucket)
        answer = await obstore.get_async(found.store, key, options=options)
        data = bytes(await answer.bytes_async())
    except (FileNotFoundError, obstore.exceptions.PreconditionError):
        return None
    except (obstore.exceptions.BaseError, OSError, ValueError):
        found.failures += 1
        return None
    found.failures = 0
    return RangeAnswer(data, answer.meta["e_tag"], str(answer.meta["size"]))


@lru_cache(1)
def _is_installed() -> bool:
    return find_spec("obstore") is not None


def _understands(system: Any) -> bool:
    options, client = system.storage_options, system.client_kwargs or {}
    config = system.config_kwargs or {}
    return (
        options.keys() <= UNDERSTOOD
        and client.keys() <= UNDERSTOOD_BY_CLIENT
        and config.keys() <= UNDERSTOOD_BY_CONFIG
    )


async def _store(system: Any, bucket: str) -> Any:
    """Obstore's store of ``bucket``, at the endpoint of s3fs."""
    from obstore.store import S3Store

    _ProcessUses.has_used = True
    client = await system.get_s3(bucket)
    endpoint = client.meta.endpoint_url
    provider = {} if system.anon else {"credential_provider": _credentials_of(system)}
    return S3Store(
        bucket,
        config={
            "endpoint": endpoint,
            "region": client.meta.region_name or "us-east-1",
            "skip_signature": bool(system.anon),
            "virtual_hosted_style_request": False,
        },
        client_options={"allow_http": endpoint.startswith("http://")},
        retry_config={"max_retries": 0},  # `fetch_all` tries again, for all stores alike
        **provider,
    )


def _credentials_of(system: Any) -> Callable[[], Any]:
    async def provide() -> dict[str, Any]:
        found = await system.session.get_credentials()
        frozen = await found.get_frozen_credentials()
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": datetime.now(timezone.utc) + KEPT_FOR,
        }

    return provide
