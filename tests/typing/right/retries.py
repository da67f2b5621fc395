# pyright: strict
"""A decorated function keeps its arguments and has its retryer."""

from localqueue.retry import key_from_argument, persistent_async_retry, persistent_retry


@persistent_retry(key_fn=key_from_argument("job_id"), max_tries=3, wait=0.1, backoff=2, retry=ConnectionError)
def upload(job_id: str, *, fast: bool = False) -> int:
    return len(job_id) + fast


size: int = upload("job:1", fast=True)
upload.retry.reset("job:1")
upload.retry_with(max_tries=5)("job:2")
print(upload.statistics["attempt_number"])


class Client:
    @persistent_retry(key="client", max_tries=3)
    def call(self, url: str) -> int:
        return len(url)


length: int = Client().call("https://example.com")


@persistent_async_retry(key="fetch", max_tries=3)
async def fetch(url: str) -> int:
    return len(url)


async def main() -> int:
    return await fetch("https://example.com")
