"""Amazon SQS, and what speaks its API, behind the broker port."""

from localqueue.brokers.sqs.broker import SQSBroker

__all__ = ["SQSBroker"]
