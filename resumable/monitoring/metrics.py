"""The stats of a run, exported to Prometheus and to TensorBoard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final, Protocol, final

from ..core.arguments import check_int
from ..core.best_effort import BestEffort
from ..errors import InvalidType, shorten
from ..formats.packages import imported

COUNTERS: Final = {
    "steps": "steps handed out since the start of the run",
    "items": "items handed out since counting began",
    "wait_seconds": "seconds in which the loop waited for an item",
    "loop_seconds": "seconds between the calls for items",
    "bytes_read": "bytes that came from remote file systems",
    "requests": "requests to remote file systems",
    "cache_hits": "parts of files that were found in a cache",
    "cache_misses": "parts of files that were not",
    "worker_restarts": "restarts of worker processes after one had died",
}
GAUGES: Final = {"wait_share": "part of the time in which the loop waited, from 0 to 1"}
QUANTILES: Final = {"0.5": "wait_p50", "0.95": "wait_p95", "0.99": "wait_p99"}
GROUPS: Final = {
    "inputs": ("input", "items of each input of a mixture in its epoch"),
    "passes": ("input", "passes over each input of a mixture in its epoch"),
    "tokens": ("input", "tokens of each input that the loop has counted"),
    "skipped": ("stage", "items that a stage has dropped in this epoch"),
}


SCALARS: Final = BestEffort("scalars are")


class HasStats(Protocol):
    """A running iterator, the loop of a `Checkpointer`, or a `ResumableDataLoader`."""

    def stats(self) -> dict[str, Any]:
        """How the run is doing."""


@final
class PrometheusServer:
    """Answers Prometheus, in a thread, until closed; also a context manager.

    Attributes:
      port: at which it listens.
    """

    def __init__(self, server: Any, thread: Any) -> None:
        self._server = server
        self._thread = thread
        self.port: int = server.server_port

    def close(self) -> None:
        """End the thread and free the port; may be called again."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> PrometheusServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def prometheus(
    iterator: HasStats, port: int = 9431, address: str = "127.0.0.1"
) -> PrometheusServer:
    """Let Prometheus ask for the stats of ``iterator``, at ``http://ADDRESS:PORT/metrics``.

    Every name begins with ``resumable_``. Counters end with ``_total``, such as
    ``resumable_wait_seconds_total``; ``resumable_wait_share`` and
    ``resumable_wait_quantile_seconds{quantile="0.95"}`` are gauges, and so are
    ``resumable_inputs{input="web"}``, ``resumable_passes{input="web"}`` and
    ``resumable_skipped{stage="pipeline"}``, since these count within an epoch; also
    ``resumable_tokens{input="web"}``. The share of the last minutes is
    ``rate(resumable_wait_seconds_total[5m]) / (rate(resumable_wait_seconds_total[5m]) + rate(resumable_loop_seconds_total[5m]))``.

    The stats are taken in the thread of the server when Prometheus asks, so the loop is not slowed
    down. Each rank on a host needs a separate port.

    Args:
      iterator: anything with `stats`: a running iterator, the loop of a `Checkpointer`, a
        `ResumableDataLoader`. The server keeps it alive.
      port: to listen at; 0 for any free port.
      address: to listen at; by default only this host is answered.

    Raises:
      MissingDependency: if prometheus-client is not installed.
      InvalidType: if ``iterator`` has no stats, or ``port`` is not an integer.
      InvalidArgument: if ``port`` is not in [0, 65535].
      OSError: if the port is taken.

    >>> with rs.metrics.prometheus(iter(rs.range(9)), port=0) as server:
    ...     server.port > 0
    True
    """
    _check_stats(iterator)
    port = check_int("port", port, minimum=0, maximum=65535)
    imported("prometheus_client", "metrics.prometheus needs prometheus-client", "prometheus")
    from prometheus_client import CollectorRegistry, start_http_server
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    class Collector:
        def collect(self) -> Iterator[Any]:
            stats = iterator.stats()
            for family, texts in families:
                for name, help_text in texts.items():
                    if name in stats:
                        yield family(f"resumable_{name}", help_text, stats[name])
            waits = {quantile: stats[name] for quantile, name in QUANTILES.items() if name in stats}
            yield labelled("wait_quantile_seconds", "how long calls took", "quantile", waits)
            for name, (label, help_text) in GROUPS.items():
                yield labelled(name, help_text, label, stats.get(name, {}))

    def labelled(name: str, help_text: str, label: str, values: Mapping[str, float]) -> Any:
        family = GaugeMetricFamily(f"resumable_{name}", help_text, labels=[label])
        for key, value in values.items():
            family.add_metric([key], value)
        return family

    families = [(CounterMetricFamily, COUNTERS), (GaugeMetricFamily, GAUGES)]
    registry = CollectorRegistry()
    registry.register(Collector())
    return PrometheusServer(*start_http_server(port, address, registry))


def tensorboard(writer: Any, iterator: HasStats) -> None:
    """Write the stats of ``iterator`` as scalars now, below ``input/``, at the step of the stats.

    Call this every few steps only, as stats cost as much as a state. If the writer fails, a
    `RuntimeWarning` says so once, and the loop continues.

    Args:
      writer: with ``add_scalar(name, value, step)``, such as torch's ``SummaryWriter``.
      iterator: anything with `stats`: a running iterator, the loop of a `Checkpointer`, a
        `ResumableDataLoader`.

    Raises:
      InvalidType: if ``writer`` has no ``add_scalar``, or ``iterator`` no stats.

    >>> class Prints:
    ...     def add_scalar(self, name, value, step):
    ...         print(step, name, value)
    >>> mixed = iter(rs.mix({"web": rs.range(9), "math": rs.range(9)}))
    >>> items = [next(mixed) for _ in range(4)]
    >>> rs.metrics.tensorboard(Prints(), mixed)
    4 input/items 4
    4 input/inputs/web 2
    4 input/inputs/math 2
    4 input/passes/web 0.2222222222222222
    4 input/passes/math 0.2222222222222222
    4 input/bytes_read 0
    4 input/requests 0
    4 input/cache_hits 0
    4 input/cache_misses 0
    4 input/worker_restarts 0
    """
    if not callable(getattr(writer, "add_scalar", None)):
        raise InvalidType(f"writer must have add_scalar, as a SummaryWriter, got {shorten(writer)}")
    stats: dict[str, Any] = SCALARS(_check_stats(iterator).stats, {})
    step = stats.pop("steps", None)
    for name, value in stats.items():
        values = value.items() if isinstance(value, Mapping) else [(None, value)]
        for key, inner in values:
            title = f"input/{name}" if key is None else f"input/{name}/{key}"
            SCALARS(partial(writer.add_scalar, title, inner, step), None)


def _check_stats(iterator: HasStats) -> HasStats:
    if not callable(getattr(iterator, "stats", None)):
        raise InvalidType(
            "iterator must have stats: a running iterator, the loop of a Checkpointer or a "
            f"ResumableDataLoader, got {shorten(iterator)}"
        )
    return iterator
