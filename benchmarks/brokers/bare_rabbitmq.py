"""The same work with nothing but a client of RabbitMQ: pika in its two ways, and aio-pika."""

from __future__ import annotations

import asyncio
import importlib.util
from typing import Any, Self

import pika

HAS_AIO = importlib.util.find_spec("aio_pika") is not None


class BareRabbitMQ:
    def __init__(self, url: str, queue: str, body: bytes) -> None:
        self._url = url
        self._queue = queue
        self._body = body
        self._connection = pika.BlockingConnection(pika.URLParameters(url))
        self._confirmed = self._connection.channel()
        self._confirmed.confirm_delivery()
        self._plain = self._connection.channel()
        self._number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def _properties(self) -> pika.BasicProperties:
        self._number += 1
        return pika.BasicProperties(delivery_mode=2, message_id=f"{self._number:032x}", timestamp=1_700_000_000)

    def send(self, count: int) -> None:
        for _ in range(count):
            self._confirmed.basic_publish("", self._queue, self._body, self._properties(), mandatory=True)

    def get(self, count: int) -> None:
        for _ in range(count):
            method, _, _ = self._plain.basic_get(self._queue)
            self._plain.basic_ack(method.delivery_tag)

    def consume(self, count: int, prefetch: int) -> None:
        channel, left = self._connection.channel(), [count]
        channel.basic_qos(prefetch_count=prefetch)

        def take(_: Any, method: Any, __: Any, ___: bytes) -> None:
            channel.basic_ack(method.delivery_tag)
            left[0] -= 1
            if not left[0]:
                channel.stop_consuming()

        channel.basic_consume(self._queue, take)
        channel.start_consuming()
        channel.close()

    def consume_by_select(self, count: int, prefetch: int) -> None:
        left = [count]

        def opened(channel: Any) -> None:
            channel.basic_qos(prefetch_count=prefetch)
            channel.basic_consume(self._queue, take)

        def take(channel: Any, method: Any, _: Any, __: bytes) -> None:
            channel.basic_ack(method.delivery_tag)
            left[0] -= 1
            if not left[0]:
                channel.connection.close()

        self._select(opened)

    def send_batches(self, batches: int, size: int) -> None:
        """Each batch is sent when the one before it is confirmed."""
        state = {"batches": batches, "unconfirmed": set[int](), "tag": 0}

        def opened(channel: Any) -> None:
            channel.confirm_delivery(confirmed, callback=lambda _: send(channel))
            state["channel"] = channel

        def send(channel: Any) -> None:
            if not state["batches"]:
                channel.connection.close()
                return
            state["batches"] -= 1
            for _ in range(size):
                channel.basic_publish("", self._queue, self._body, self._properties(), mandatory=True)
                state["tag"] += 1
                state["unconfirmed"].add(state["tag"])

        def confirmed(frame: Any) -> None:
            tag = frame.method.delivery_tag
            if frame.method.multiple:
                state["unconfirmed"] = {one for one in state["unconfirmed"] if one > tag}
            else:
                state["unconfirmed"].discard(tag)
            if not state["unconfirmed"]:
                send(state["channel"])

        self._select(opened)

    def _select(self, opened: Any) -> None:
        connection = pika.SelectConnection(
            pika.URLParameters(self._url),
            on_open_callback=lambda found: found.channel(on_open_callback=opened),
            on_close_callback=lambda found, _: found.ioloop.stop(),
        )
        connection.ioloop.start()

    def send_by_aio(self, batches: int, size: int) -> None:
        import aio_pika

        async def send() -> None:
            async with await aio_pika.connect(self._url) as connection:
                exchange = (await connection.channel()).default_exchange
                for _ in range(batches):
                    await asyncio.gather(
                        *(
                            exchange.publish(
                                aio_pika.Message(
                                    self._body, delivery_mode=2, message_id=str(number), timestamp=1_700_000_000
                                ),
                                self._queue,
                            )
                            for number in range(size)
                        )
                    )

        asyncio.run(send())

    def consume_by_aio(self, count: int, prefetch: int) -> None:
        import aio_pika

        async def consume() -> None:
            async with await aio_pika.connect(self._url) as connection:
                channel = await connection.channel()
                await channel.set_qos(prefetch_count=prefetch)
                queue = await channel.get_queue(self._queue)
                left = count
                async with queue.iterator() as messages:
                    async for message in messages:
                        await message.ack()
                        left -= 1
                        if not left:
                            break

        asyncio.run(consume())
