"""RabbitMQ behind the broker port: `open_broker("amqp://user:password@host:5672/vhost")`.

- `settings`: the address and its options
- `topology`: the queues that belong to a queue, and their arguments
- `session`: one connection and the thread that drives it
- `lane`: one channel, what it has delivered, and what of that is settled
- `publisher`: sends and waits for the confirms
- `receiver`: a `receive` that takes exactly what was asked for
- `subscription`: push of one queue, bounded by its prefetch
- `message`: our messages and theirs
- `errors`: what the server said, as an error of this package
- `connections`: what of all that a broker has open
- `broker`: the port
"""

from localqueue.brokers.rabbitmq.broker import RabbitMQBroker

__all__ = ["RabbitMQBroker"]
