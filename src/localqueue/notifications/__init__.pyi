# ruff: isort: skip_file
# The names of `__init__.py`, for type checkers.
from localqueue.notifications.mongodb import (
    MongoDBNotification as MongoDBNotification,
)
from localqueue.notifications.port import (
    CrossProcessNotification as CrossProcessNotification,
)
from localqueue.notifications.postgres import (
    PostgresNotification as PostgresNotification,
)
from localqueue.notifications.redis import (
    RedisNotification as RedisNotification,
)
from localqueue.notifications.signals import (
    SignalNotification as SignalNotification,
)
from localqueue.notifications.sockets import (
    SocketNotification as SocketNotification,
)
from localqueue.notifications.sse import (
    SSENotification as SSENotification,
)
from localqueue.notifications.sse_listener import (
    SSEListener as SSEListener,
)
from localqueue.notifications.webhook import (
    WebhookNotification as WebhookNotification,
)
from localqueue.notifications.webhook_receiver import (
    WebhookReceiver as WebhookReceiver,
)
from localqueue.notifications.websocket import (
    WebSocketNotification as WebSocketNotification,
)
