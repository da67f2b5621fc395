# pyright: strict
"""Every worker takes the same retry settings, plain or of Tenacity."""

from tenacity import retry_if_exception_type, stop_after_delay, wait_exponential

from localqueue import (
    AsyncWorker,
    PersistentQueue,
    PersistentWorkerConfig,
    QueueSpec,
    Worker,
    persistent_async_worker,
    persistent_worker,
)
from localqueue.retry import retry_settings

queue = PersistentQueue("jobs")


def handle(job: dict[str, str]) -> None:
    print(job["to"])


async def fetch(url: str) -> int:
    return len(url)


Worker(queue, handle)
Worker(queue, handle, concurrency=4, max_tries=5, wait=0.1, backoff=2, max_delay=60, jitter=0.5, retry=ConnectionError)
Worker(queue, handle, wait=None, retry=(ConnectionError, TimeoutError), release_delay=1, min_interval=0.1)
Worker(queue, handle, stop=stop_after_delay(60), wait=wait_exponential(), retry=retry_if_exception_type(OSError))
AsyncWorker(queue, fetch, concurrency=50, max_tries=2, wait=1)

config = PersistentWorkerConfig(max_tries=3, wait=0.5, dead_letter_on_failure=False)
Worker(queue, handle, config=config.with_overrides(max_tries=4))
spec = QueueSpec("jobs").with_retry(max_retries=3, wait=0.5, backoff=2)
retry_settings(max_tries=3, wait=0.5, retry=OSError)


@persistent_worker(queue, max_tries=3, wait=0.1, before_sleep=print)
def double(value: int) -> int:
    return 2 * value


@persistent_async_worker(queue, config=config, retry=OSError)
async def length(url: str) -> int:
    return len(url)


total: int = double() + 1
