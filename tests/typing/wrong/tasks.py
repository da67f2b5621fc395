"""Mistakes with tasks that a type checker finds."""

from localqueue import Tasks

tasks = Tasks("sqlite:///jobs.db")


@tasks.task(queue="mail")
def send(to: str, copies: int = 1) -> str:
    return to * copies


@tasks.task
async def fetch(url: str) -> bytes:
    return url.encode()


send.enqueue(1)  # error
send.enqueue()  # error
send.enqueue("a", copys=2)  # error
send.delay("a", "b")  # error
send(1)  # error
number: int = send.enqueue("a").result()  # error
text: str = fetch.enqueue("a").result()  # error
send.options(delya=1).enqueue("a")  # error
send.options(delay="soon").enqueue("a")  # error
tasks.task(retrys=3)  # error
tasks.task(timeout="soon")  # error
send.options(delay=1).enqueue(1)  # error
