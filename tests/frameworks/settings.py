"""Settings of a small Django project. SHOP_DATABASES has its databases, as JSON."""

from __future__ import annotations

import importlib.util
import json
import os
from typing import Any

SECRET_KEY = "of no use"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["tests.frameworks.shop", "localqueue.django"]
if importlib.util.find_spec("django.tasks") is None:
    INSTALLED_APPS.append("django_tasks")

DATABASES: dict[str, Any] = json.loads(
    os.environ.get("SHOP_DATABASES", '{"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}')
)
TASKS = {
    "default": {
        "BACKEND": "localqueue.django.LocalqueueBackend",
        "QUEUES": ["default", "mail"],
        "OPTIONS": {
            "keep_results": 600,
            "retry_delay": 0,
            "tasks": {"tests.frameworks.shop.tasks.fail": {"retries": 1}},
        },
    }
}
