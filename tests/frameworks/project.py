"""The Django project of these tests, set up in this process and started in others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import django
from asgiref.local import Local
from django.db import connections

SETTINGS = "tests.frameworks.settings"
ROOT = Path(__file__).parents[2]

os.environ["DJANGO_SETTINGS_MODULE"] = SETTINGS
django.setup()


def connect_to(settings: dict[str, Any]) -> None:
    """Have Django's database be another one."""
    connections.close_all()
    connections.settings = connections.configure_settings({"default": dict(settings)})
    connections._connections = Local()


def manage(settings: dict[str, Any], *arguments: str) -> subprocess.Popen[str]:
    """Start a command of Django in a process of its own."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
        "SHOP_DATABASES": json.dumps({"default": settings}),
    }
    return subprocess.Popen(
        [sys.executable, "-m", "django", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
