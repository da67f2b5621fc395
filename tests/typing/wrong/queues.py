"""What a queue is not."""

from localqueue import PersistentQueue

numbers = PersistentQueue[int]("numbers")
numbers.put("seven")  # error
numbers.put(7, dely=1)  # error
numbers.put_many(["seven"])  # error
text: str = numbers.get()  # error
numbers.ack(7)  # error
PersistentQueue("jobs", max_atempts=3)  # error
PersistentQueue(7)  # error
numbers.build_worker_config(max_trys=3)  # error
