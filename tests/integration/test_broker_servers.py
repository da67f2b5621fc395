"""The brokers of the tests are real: each takes a message through its plain client.

One that finds its port taken starts on another, what it has on its disk survives that it is killed, and it ends without
a trace.
"""

from __future__ import annotations

import uuid
from contextlib import closing

import pytest

from tests.broker_servers import SQS, Kafka, RabbitMQ
from tests.integration.test_server_ports import take
from tests.servers import has_process

pytestmark = [pytest.mark.server, pytest.mark.slow]


def test_rabbitmq_keeps_durable_messages_over_a_kill_and_ends_without_a_trace() -> None:
    import pika

    server = RabbitMQ()
    try:
        with take(server.port):
            server.start()
        persistent = pika.BasicProperties(delivery_mode=2)
        quorum = {"x-queue-type": "quorum"}
        with closing(pika.BlockingConnection(pika.URLParameters(server.url))) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            for name, arguments in (("classic", {}), ("quorum", quorum)):
                channel.queue_declare(name, durable=True, arguments=arguments)
                channel.basic_publish("", name, b"kept", persistent, mandatory=True)
        server.save_declarations()
        processes = [server.process.pid, server.mapper]
        server.kill()
        assert not any(map(has_process, processes))
        server.start()
        with closing(pika.BlockingConnection(pika.URLParameters(server.url))) as connection:
            channel = connection.channel()
            assert [channel.basic_get(name, auto_ack=True)[2] for name in ("classic", "quorum")] == [b"kept", b"kept"]
        processes = [server.process.pid, server.mapper]
    finally:
        server.stop()
    assert not any(map(has_process, processes))
    assert not server.folder.exists()


def test_rabbitmq_under_its_disk_alarm_says_so_and_takes_messages_when_it_is_over(rabbitmq: RabbitMQ) -> None:
    import pika

    blocked: list[str] = []
    name = uuid.uuid4().hex
    with closing(pika.BlockingConnection(pika.URLParameters(rabbitmq.url))) as connection:
        connection.add_on_connection_blocked_callback(lambda *_: blocked.append("blocked"))
        connection.add_on_connection_unblocked_callback(lambda *_: blocked.append("unblocked"))
        channel = connection.channel()
        channel.queue_declare(name, durable=True)
        rabbitmq.raise_disk_alarm()
        try:
            channel.basic_publish("", name, b"held back")
            while not blocked:
                connection.process_data_events(1)
            with closing(pika.BlockingConnection(pika.URLParameters(rabbitmq.url))) as other:
                assert other.channel().queue_declare(name, passive=True).method.message_count == 0
        finally:
            rabbitmq.clear_disk_alarm()
        while blocked != ["blocked", "unblocked"]:
            connection.process_data_events(1)
        assert channel.basic_get(name, auto_ack=True)[2] == b"held back"
        channel.queue_delete(name)


def test_kafka_keeps_records_over_a_kill_and_ends_without_a_trace() -> None:
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    server = Kafka()
    try:
        with take(server.port):
            server.start()
        at = {"bootstrap.servers": f"127.0.0.1:{server.port}"}
        admin = AdminClient(at)
        admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(30)
        producer = Producer({**at, "enable.idempotence": True})
        producer.produce("orders", b"kept", headers={"a": b"1"})
        assert producer.flush(30) == 0
        server.kill()
        server.start()
        consumer = Consumer({**at, "group.id": "readers", "auto.offset.reset": "earliest"})
        consumer.subscribe(["orders"])
        record = consumer.poll(60)
        assert (record.value(), record.headers()) == (b"kept", [("a", b"1")])
        consumer.commit(record, asynchronous=False)
        consumer.close()
        process = server.process.pid
    finally:
        server.stop()
    assert not has_process(process)
    assert not server.folder.exists()


def test_sqs_takes_a_message(sqs_server: SQS) -> None:
    import boto3

    with closing(boto3.client("sqs", **sqs_server.client_options)) as client:
        queue = client.create_queue(QueueName=uuid.uuid4().hex)["QueueUrl"]
        client.send_message(QueueUrl=queue, MessageBody="kept")
        (message,) = client.receive_message(QueueUrl=queue, WaitTimeSeconds=5)["Messages"]
        assert message["Body"] == "kept"


def test_pgmq_takes_a_message(pgmq: str) -> None:
    import psycopg

    name = f"q_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(pgmq.replace("pgmq://", "postgresql://"), autocommit=True) as connection:
        connection.execute("SELECT pgmq.create(%s)", [name])
        connection.execute("SELECT pgmq.send(%s, %s)", [name, '{"a": 1}'])
        read = connection.execute("SELECT message FROM pgmq.read(%s, 30, 1)", [name]).fetchall()
        assert read == [({"a": 1},)]
        made_of = "SELECT proname FROM pg_proc JOIN pg_namespace n ON n.oid = pronamespace WHERE nspname = 'pgmq'"
        functions = {function for (function,) in connection.execute(made_of)}
        assert {"send_batch", "read_with_poll", "set_vt", "archive", "enable_notify_insert"} <= functions
