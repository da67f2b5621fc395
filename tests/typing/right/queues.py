# pyright: strict
"""A queue that names no type holds anything; one that does is held to it."""

from typing import Any, assert_type

from localqueue import PersistentQueue, QueueMessage, open_store

anything = PersistentQueue("jobs")
assert_type(anything, PersistentQueue[Any])
anything.put({"task": "send-email", "to": "someone@example.com"})
print(anything.get_message().value["to"])

numbers = PersistentQueue[int]("numbers", max_attempts=5, retry_defaults={"wait": 0.5, "max_tries": 3})
numbers.put(7, delay=1.5, priority=2)
assert_type(numbers.get(), int)
message = numbers.get_message()
assert_type(message, QueueMessage[int])
numbers.ack(message)


def look(one: QueueMessage) -> str:
    return one.id


with open_store("sqlite:///jobs.db") as store, PersistentQueue[str]("names", store=store) as names:
    names.put_many(["ada", "grace"])
    print(look(names.get_message()))
