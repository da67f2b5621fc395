"""Workflows as Mermaid, as a picture and as a timeline."""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localqueue.workflows import RunStatus, StepStatus, Workflow
from localqueue.workflows.layout import layout_of
from localqueue.workflows.mermaid import mermaid_of
from localqueue.workflows.picture import picture_of
from localqueue.workflows.timeline import seconds_of, timeline_of

SVG = "{http://www.w3.org/2000/svg}"
AWKWARD = 'tell "the" <customer> & 東京 `now` #1'


def step(name: str, *after: str, kind: str = "step", **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": kind, "after": list(after), **more}


def shape(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"workflow": "order", "version": 2, "steps": list(steps)}


def order() -> Workflow:
    """One of each kind."""
    shipping, order = Workflow("shipping"), Workflow("order", version=2)
    shipping.gate("pack")
    order.gate("begin")
    order.decision(after=["begin"], name="route")(lambda ctx: "fast")
    order.step(after=["route"], on="fast", name="courier")(lambda ctx: None)
    order.step(after=["route"], on="slow", name="post", compensate=lambda ctx: None)(lambda ctx: [1, 2])
    order.step(each="post", name="resize")(lambda ctx: None)
    order.timer("cool down", 60, after=["courier", "resize"])
    order.child("ship", shipping, after=["cool down"])
    order.step(after=["ship"], name=AWKWARD)(lambda ctx: None)
    return order


def boxes(svg: str) -> dict[str, str]:
    """What the picture shows: the first line of each tip, and the class that colours its box."""
    root = ElementTree.fromstring(svg)
    groups = [group for group in root.iter(f"{SVG}g") if group.find(f"{SVG}title") is not None]
    return {(group.findtext(f"{SVG}title") or "").split("\n")[0]: group.attrib["class"] for group in groups}


def test_mermaid_has_each_step_in_the_shape_of_its_kind_and_each_edge() -> None:
    lines = [line.strip() for line in order().mermaid().splitlines()]
    assert lines[0] == "flowchart TD"
    assert lines[1:9] == [
        's0(("begin"))',
        's1{"route"}',
        's2["courier"]',
        's3["post"]',
        's4[/"resize<br/>for each post"/]',
        's5(["cool down"])',
        's6[["ship<br/>shipping@1"]]',
        's7["tell #34;the#34; #60;customer#62; #38; 東京 #96;now#96; #35;1"]',
    ]
    assert lines[9:] == [
        "s0 --> s1",
        's1 -->|"fast"| s2',
        's1 -->|"slow"| s3',
        "s3 --> s4",
        "s2 --> s5",
        "s4 --> s5",
        "s5 --> s6",
        "s6 --> s7",
    ]


def test_mermaid_colours_the_states_that_are_there() -> None:
    text = mermaid_of(shape(step("a"), step("b", "a"), step("c", "b")), {"a": "succeeded", "b": "failed"})
    assert 's0["a"]:::succeeded' in text and 's1["b"]:::failed' in text and 's2["c"]:::waiting' in text
    assert re.findall(r"classDef (\w+)", text) == ["waiting", "succeeded", "failed"]


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("a_b", "a_b"),
        ("_a_ *b*", "#95;a#95; #42;b#42;"),
        ("1. begin", "1#46; begin"),
        ("- begin", "#45; begin"),
        ("$$x$$", "#36;#36;x#36;#36;"),
        ("a|b\\c", "a#124;b#92;c"),
    ],
)
def test_mermaid_takes_nothing_in_a_name_for_its_own(name: str, label: str) -> None:
    assert f's0["{label}"]' in mermaid_of(shape(step(name)))


def test_the_picture_shows_every_step_in_the_colours_of_its_state() -> None:
    workflow = order()
    assert boxes(workflow.svg()) == dict.fromkeys(workflow.steps, "plain")
    states = {
        "begin": "succeeded",
        "route": "succeeded",
        "courier": "skipped",
        "post": "succeeded",
        "resize": "strange",
    }
    svg = picture_of(workflow.definition.shape, {**states, "undo:post": "succeeded"})
    shown = boxes(svg)
    assert (shown["begin"], shown["courier"], shown["post"]) == ("succeeded", "skipped", "undone")
    assert (shown["resize"], shown["ship"]) == ("waiting", "waiting")
    words = [one.text for one in ElementTree.fromstring(svg).iter(f"{SVG}text") if one.text]
    assert {"order version 2", "fast", "slow", "succeeded 2", "skipped 1", "undone 1", "waiting 4"} <= set(words)


def test_the_picture_needs_nothing_beside_it_and_is_for_day_and_night() -> None:
    svg = order().svg()
    assert svg.isascii() and "prefers-color-scheme:dark" in svg
    assert not re.search(r"<script|<image|href|url\(|@import", svg)
    assert svg.count("http") == 1  # the name of its own language


def test_a_name_with_what_xml_can_not_hold_is_drawn_all_the_same() -> None:
    (name,) = boxes(picture_of({"workflow": "x\x00", "version": 1, "steps": [step("a\x01\ud800")]}))
    assert name == "a\ufffd\ufffd"


def test_a_graph_without_steps_is_an_empty_picture() -> None:
    assert boxes(picture_of(shape())) == {}
    assert mermaid_of(shape()) == "flowchart TD\n"


def test_many_steps_that_are_alike_are_one_box_for_each_state() -> None:
    many = [step(f"s{n}", "root") for n in range(1000)]
    states = {f"s{n}": "succeeded" if n < 900 else "running" for n in range(1000)}
    svg = picture_of(shape(step("root"), *many, step("last", *(f"s{n}" for n in range(1000)))), states)
    assert sorted(boxes(svg).values()) == ["running", "succeeded", "waiting", "waiting"]
    assert "900 steps" in svg and "100 steps" in svg and "succeeded 900" in svg
    assert "s0, s1" in svg and "and 880 more" in svg


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[tuple[float, float]], list[tuple[int, int]]]:
    count = draw(st.integers(1, 14))
    sizes = draw(st.lists(st.tuples(st.floats(10, 200), st.floats(10, 60)), min_size=count, max_size=count))
    pairs = list(combinations(range(count), 2))
    return sizes, draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []


@given(graphs())
@settings(max_examples=60)
def test_boxes_never_overlap_and_lines_go_down(graph: Any) -> None:
    sizes, edges = graph
    layout = layout_of(sizes, edges)
    assert len(layout.centres) == len(sizes) and len(layout.lines) == len(edges)
    frames = [
        (x - w / 2, y - h / 2, x + w / 2, y + h / 2) for (x, y), (w, h) in zip(layout.centres, sizes, strict=True)
    ]
    for (left, top, right, bottom), (left2, top2, right2, bottom2) in combinations(frames, 2):
        assert right < left2 or right2 < left or bottom < top2 or bottom2 < top
    for left, top, right, bottom in frames:
        assert left > -0.001 and top > -0.001 and right < layout.width + 0.001 and bottom < layout.height + 0.001
    for (above, below), points in zip(edges, layout.lines, strict=True):
        assert points[0] == pytest.approx((layout.centres[above][0], frames[above][3]))
        assert points[-1] == pytest.approx((layout.centres[below][0], frames[below][1]))
        heights = [y for _, y in points]
        assert heights == sorted(heights)


@pytest.mark.timeout(60)
def test_thousands_of_steps_are_drawn_while_one_waits() -> None:
    count = 1500
    far = [step(f"s{n}", *({f"s{n * 7 // 11}", f"s{n - 1}", f"s{n // 3}"} if n else ())) for n in range(count)]
    wide = [step("root"), *(step(f"a{n}", "root") for n in range(count))]
    wide += [step(f"b{n}", f"a{n}", f"a{n * 7 % count}") for n in range(count)]
    for steps in (far, wide):
        graph = shape(*(dict(one, after=list(dict.fromkeys(one["after"]))) for one in steps))
        assert len(boxes(picture_of(graph))) == len(steps)
        assert len(mermaid_of(graph).splitlines()) == 1 + len(steps) + sum(len(one["after"]) for one in graph["steps"])


def status(*steps: StepStatus, **more: Any) -> RunStatus:
    return RunStatus(run_id="r1", workflow="order", version=2, steps=steps, **{"state": "running", **more})


def ran(name: str, begin: float, end: float | None, **more: Any) -> StepStatus:
    given: dict[str, Any] = {"kind": "step", "state": "succeeded" if end else "running", "attempts": 1, **more}
    return StepStatus(name=name, started_at=begin, finished_at=end, **given)


def test_a_timeline_has_a_line_for_each_step_in_the_order_in_which_they_began() -> None:
    error = {"type": "ValueError", "message": "no\x1b[31m\nmoney"}
    text = timeline_of(
        status(
            StepStatus(name="last", kind="step", state="waiting"),
            ran("東京", 105.0, None),
            ran("charge", 102.0, 105.0, attempts=3, state="failed", error=error),
            ran("validate", 100.0, 102.0),
            StepStatus(name="other", kind="step", state="skipped", finished_at=104.0),
            created_at=100.0,
        ),
        width=10,
        now=110.0,
    )
    assert text.splitlines() == [
        "order version 2, run r1: running for 10 s",
        "validate  ███·······    1 try       2 s  succeeded",
        "charge    ··████····  3 tries       3 s  failed: ValueError: no [31m money",
        "other     ··········                     skipped",
        "東京      ·····▒▒▒▒▒    1 try       5 s  running",
        "last      ··········                     waiting",
    ]


def test_the_items_of_a_fan_out_are_lines_or_counted_where_they_are_many() -> None:
    def items(count: int) -> tuple[StepStatus, ...]:
        return tuple(ran(f"{n:08d}", 1.0 + n, 2.0 + n, kind="item") for n in range(count))

    few = timeline_of(status(ran("resize", 1, 9, kind="map", items=items(2))), width=20, now=20.0).splitlines()
    assert [line.split()[0] for line in few[1:]] == ["resize", "0", "1"]
    (line,) = timeline_of(status(ran("resize", 1, 9, kind="map", items=items(1500))), width=20, now=20.0).splitlines()[
        1:
    ]
    assert line.endswith("succeeded (1,500 items: 1,500 succeeded, 1 s to 1 s each)")


def test_what_a_forked_run_took_over_has_no_bar_in_it() -> None:
    text = timeline_of(
        status(ran("a", 10.0, 100.0), ran("b", 101.0, 102.0), created_at=100.0, forked_from="r0"), width=20, now=104.0
    )
    assert text.splitlines()[0].endswith("for 4 s")
    assert "█" not in text.splitlines()[2] and text.splitlines()[2].endswith("succeeded before")


def test_a_timeline_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 10 columns for its bars, not 3"):
        timeline_of(status(), width=3, now=0.0)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-1, "0 ms"), (0.0123, "12.3 ms"), (0.9996, "1 s"), (59.4, "59.4 s"), (61, "1:01 min"), (3725.6, "1:02:06")],
)
def test_lengths_of_time_are_for_people(seconds: float, said: str) -> None:
    assert seconds_of(seconds) == said
