"""PGMQ, the message queue of PostgreSQL, behind the broker port."""

from localqueue.brokers.pgmq.broker import PGMQBroker

__all__ = ["PGMQBroker"]
