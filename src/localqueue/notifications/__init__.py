"""Waking consumers of other processes and other machines, whichever store their messages live in.

An adapter is loaded when its name is first used. Type checkers read the names from `__init__.pyi`.
"""

from localqueue._exports import lazy

_ADAPTERS = {
    "localqueue.notifications.mongodb": ("MongoDBNotification",),
    "localqueue.notifications.port": ("CrossProcessNotification",),
    "localqueue.notifications.postgres": ("PostgresNotification",),
    "localqueue.notifications.redis": ("RedisNotification",),
    "localqueue.notifications.signals": ("SignalNotification",),
    "localqueue.notifications.sockets": ("SocketNotification",),
    "localqueue.notifications.sse": ("SSENotification",),
    "localqueue.notifications.sse_listener": ("SSEListener",),
    "localqueue.notifications.webhook": ("WebhookNotification",),
    "localqueue.notifications.webhook_receiver": ("WebhookReceiver",),
    "localqueue.notifications.websocket": ("WebSocketNotification",),
}

__all__, __getattr__, __dir__ = lazy(__name__, _ADAPTERS)
