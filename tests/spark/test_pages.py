"""The Spark code of the documentation and the examples runs as it stands."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).parents[2]
CODE = re.compile(r"^```python spark\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def in_folder(code: str, folder: Path) -> str:
    """The code with its relative names in a folder of the test: the JVM has a directory of its own."""
    for name in (
        "sqlite:///shop.db",
        '"shop.db"',
        '"arrived"',
        '"consumed"',
        '"checkpoint-1"',
        '"checkpoint-2"',
        '"checkpoint-3"',
        '"checkpoint-4"',
        '"checkpoint-5"',
        '"order_lake"',
    ):
        inner = name.strip('"').removeprefix("sqlite:///")
        full = f"sqlite:///{folder}/{inner}" if name.startswith("sqlite") else f'"{folder}/{inner}"'
        code = code.replace(name, full)
    return re.sub(r'"(reports?|archive|latest|lake|view|landing)(/?[\w.-]*)"', rf'"{folder}/\1\2"', code)


@pytest.mark.parametrize("name", ["docs/spark.md", "docs/pipeline.md"])
def test_the_blocks_of_a_page_run_one_after_another(name: str, spark: Any, tmp_path: Path) -> None:
    page = (ROOT / name).read_text()
    blocks = list(CODE.finditer(page))
    assert blocks
    namespace: dict[str, Any] = {"__name__": "page"}
    for block in blocks:
        above = "\n" * page.count("\n", 0, block.start(1))  # so that a traceback has the line of the page
        exec(compile(above + in_folder(block[1], tmp_path), name, "exec"), namespace)
    namespace["store"].close()


def test_the_cells_of_the_notebook_run_one_after_another(spark: Any, tmp_path: Path) -> None:
    notebook = json.loads((ROOT / "examples" / "queue_analysis.ipynb").read_text())
    assert notebook["nbformat"] == 4
    namespace: dict[str, Any] = {"__name__": "notebook", "FOLDER": tmp_path}
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] for cell in notebook["cells"] if cell["cell_type"] == "code")
    for number, code in enumerate(cells):
        exec(compile(code, f"cell {number}", "exec"), namespace)
    assert namespace["found"] > 0


def test_sessions_are_found_in_a_stream_of_messages(spark: Any, tmp_path: Path) -> None:
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        import spark_sessions
    finally:
        sys.path.pop(0)
    from localqueue import SQLiteQueueStore

    with SQLiteQueueStore(tmp_path / "clicks.db") as store:
        store.enable_journal()
        count = spark_sessions.put_clicks(store, customers=10)
    found = spark_sessions.run(spark, f"sqlite:///{tmp_path}/clicks.db", tmp_path)
    assert found.count() == 30
    assert found.selectExpr("sum(clicks)").first()[0] == count - 1  # all but the one that closes the day


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_declarative_pipeline_keeps_tables_up_to_date(tmp_path: Path) -> None:
    from localqueue import PersistentQueue, SQLiteQueueStore
    from localqueue.spark.host import use_address
    from localqueue.spark.java import use_java

    use_java()
    use_address("local", {})
    folder = tmp_path / "declarative"
    shutil.copytree(ROOT / "examples" / "declarative", folder)
    specification = folder / "spark-pipeline.yml"
    text = specification.read_text()
    specification.write_text(text.replace("file:///tmp/localqueue-declarative", f"file://{tmp_path}/storage"))
    with SQLiteQueueStore(tmp_path / "shop.db") as store:
        store.enable_journal()
        PersistentQueue("orders", store=store).put_many(
            {"order_id": n, "customer": f"c{n % 3}", "city": "Oslo", "product": "lamp", "amount": 2.0}
            for n in range(30)
        )
    program = Path(sys.executable).with_name("spark-pipelines")
    ended = subprocess.run(
        [str(program), "run", "--spec", str(specification), "--conf", f"spark.sql.warehouse.dir={tmp_path}/warehouse"],
        env={
            **os.environ,
            "LOCALQUEUE_URL": f"sqlite:///{tmp_path}/shop.db",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_TESTING": "1",  # Spark Connect then takes a free port
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-5000:]
    cities = pq.ParquetDataset(tmp_path / "warehouse" / "revenue_by_city").read().to_pylist()
    assert cities == [{"city": "Oslo", "orders": 30, "revenue": 60.0}]
