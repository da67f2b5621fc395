"""Settings that no worker takes."""

from localqueue import (
    AsyncWorker,
    PersistentQueue,
    PersistentWorkerConfig,
    QueueSpec,
    Worker,
    persistent_async_worker,
    persistent_worker,
)
from localqueue.retry import persistent_retry, retry_settings

queue = PersistentQueue("jobs")


def handle(job: object) -> None: ...


Worker(queue, handle, max_trys=2)  # error
Worker(queue, handle, max_tries="2")  # error
Worker(queue, handle, wait="1s")  # error
Worker(queue, handle, retry="ConnectionError")  # error
Worker(queue, handle, retry=[ConnectionError])  # error
Worker(queue, handle, retry=int)  # error
Worker(queue, handle, stop=3)  # error
Worker(queue, handle, before_sleep=print)  # error
Worker("jobs", handle)  # error
AsyncWorker(queue, handle, bakoff=2)  # error
PersistentWorkerConfig(max_trys=2)  # error
PersistentWorkerConfig().with_overrides(jiter=2)  # error
QueueSpec("jobs").with_retry(waits=2)  # error
persistent_worker(queue, max_trys=2)  # error
persistent_worker(queue, key="k")  # error
persistent_async_worker(queue, wait="1s")  # error
persistent_retry(key="k", max_trys=2)  # error
retry_settings(max_delay="1h")  # error


@persistent_retry(key="k", max_tries=2)
def upload(job: str) -> int:
    return len(job)


upload(7)  # error
upload("job", fast=True)  # error
name: str = upload("job")  # error
