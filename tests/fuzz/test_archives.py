"""The files beside the data of an archive or a view: what is damaged or not ours is told, before anything is read."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from localqueue.spark.jobs.archive_layout import Marker, span_of
from localqueue.spark.jobs.files import LocalFolder
from localqueue.spark.jobs.view_table import COMMITS, Commit, commits_in
from tests.fuzz.damage import Damage, damages
from tests.fuzz.effort import examples
from tests.fuzz.words import words

MARKER = Marker(kind="journal", format="parquet", view="events", store="sqlite:///a.db", namespace="default")
COMMIT = {"number": 3, "query": "q", "batch": 7, "parts": {"0": "part-0"}}

plain = st.none() | st.booleans() | st.integers() | words | st.lists(st.integers(), max_size=2)
texts = st.one_of(
    words,
    st.sampled_from(["[" * 100_000, "{}", "[]", "null", "5", '{"localqueue": "archive"}', '{"localqueue": []}']),
    st.dictionaries(st.sampled_from(["localqueue", *COMMIT, "kind", "format", "layout"]), plain, max_size=5).map(
        json.dumps
    ),
)


@given(text=texts, damage=damages)
@example(text="[" * 100_000, damage=lambda content: content)
@examples(30)
def test_a_marker_is_one_or_none(text: str, damage: Damage) -> None:
    for one in (text, damage(MARKER.text().encode()).decode(errors="replace")):
        found = Marker.of(one)
        assert found is None or all(isinstance(value, str | int | None) for value in vars(found).values())
    assert Marker.of(MARKER.text()) == MARKER


@given(name=words | st.builds("span={}-{}-x".format, words, words))
@examples(30)
def test_the_name_of_a_folder_is_a_span_or_says_nothing(name: str) -> None:
    found: Any = span_of(name)
    assert found is None or 0 < found.first <= found.last


@given(content=texts.map(lambda one: one.encode("utf-8", "replace")) | st.binary(max_size=30), damage=damages)
@examples(30)
def test_a_view_that_is_damaged_says_which_file(content: bytes, damage: Damage) -> None:
    with TemporaryDirectory() as folder:
        commits = Path(folder, COMMITS)
        commits.mkdir(parents=True)
        for bad in (content, damage(json.dumps(COMMIT).encode())):
            (commits / "3.json").write_bytes(bad)
            try:
                assert all(isinstance(one, Commit) for one in commits_in(LocalFolder(folder)))
            except ValueError as error:
                assert "3.json" in str(error)
