"""The graph of a workflow as a picture: SVG that needs nothing beside it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any
from xml.sax.saxutils import escape

from localqueue.workflows.boxes import LETTER, SMALL_LETTER, STACK, Box, graph_of
from localqueue.workflows.label import cells_of
from localqueue.workflows.layout import Layout, Point, layout_of
from localqueue.workflows.palette import LOOKS, PLAIN, look_of

_MARGIN = 24.0
_HEAD = 44.0
_LEGEND = 40.0
_ROW = 22.0
_PAPER = ("#ffffff", "#12151a")
_INK = ("#1d2228", "#e4e8ed")
_LINES = ("#78828e", "#848e9a")
_PALE = ("#bcc3cb", "#4b535d")

# What XML can not hold, escaped or not.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def picture_of(shape: Mapping[str, Any], states: Mapping[str, str] | None = None) -> str:
    """A picture of `shape` as SVG, for light and dark screens; with `states`, by the names of the steps, each step in
    the colours of its state."""
    graph = graph_of(shape["steps"], states)
    boxes = graph.boxes
    layout = layout_of([(box.width, box.height) for box in boxes], [line[:2] for line in graph.lines])
    title = f"{shape['workflow']} version {shape['version']}"
    counts = Counter[str]()
    for box in boxes:
        counts[box.state if box.state in LOOKS else "waiting"] += box.count
    counts.pop(PLAIN, None)
    shown = [state for state in LOOKS if counts[state]]
    width = max(layout.width, cells_of(title) * LETTER * 1.2, 280.0) + 2 * _MARGIN
    left = (width - layout.width) / 2
    legend = list(_legend([(state, counts[state]) for state in shown], width))
    height = _HEAD + layout.height + (legend[-1][-1] + _LEGEND if legend else 0.0) + _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="lq-workflow" width="{_n(width)}" height="{_n(height)}" '
        f'viewBox="0 0 {_n(width)} {_n(height)}" role="img" aria-label="{_text(title)}">',
        f"<style>{_style(shown)}</style>",
        '<rect class="paper" width="100%" height="100%"/>',
        f'<text class="title" x="{_n(width / 2)}" y="28">{_text(title)}</text>',
        f'<g transform="translate({_n(left)} {_n(_HEAD)})">',
        *_lines(graph.lines, boxes, layout),
        *(_drawn(box, x, y) for box, (x, y) in zip(boxes, layout.centres, strict=True)),
        *_branches(graph.lines, layout),
        "</g>",
        f'<g transform="translate(0 {_n(_HEAD + layout.height + 28)})">',
        *(
            f'<g class="{state}"><rect x="{_n(x)}" y="{_n(y)}" width="14" height="14" rx="3"/>'
            f'<text class="legend" x="{_n(x + 20)}" y="{_n(y + 11)}">{_text(said)}</text></g>'
            for state, said, x, y in legend
        ),
        "</g>",
        "</svg>",
    ]
    # Nothing but ASCII: so it is the same in whatever encoding somebody writes it.
    return "\n".join(parts).encode("ascii", "xmlcharrefreplace").decode() + "\n"


def _lines(lines: list[tuple[int, int, str]], boxes: list[Box], layout: Layout) -> Iterable[str]:
    """All lines of one kind are one path, and so are their heads: they all come from above."""
    ways: dict[str, list[str]] = {"pale line": [], "line": []}
    heads: dict[str, list[str]] = {"pale head": [], "head": []}
    for (above, below, _), points in zip(lines, layout.lines, strict=True):
        pale = "pale " if "skipped" in (boxes[above].state, boxes[below].state) else ""
        *_, (x, y) = points
        ways[f"{pale}line"].append(_way([*points[:-1], (x, y - 6)]))
        heads[f"{pale}head"].append(f"M{_n(x - 4)} {_n(y - 8)}h8L{_n(x)} {_n(y - 1)}z")
    for kind, found in {**ways, **heads}.items():
        if found:
            yield f'<path class="{kind}" d="{"".join(found)}"/>'


def _way(points: list[Point]) -> str:
    (x, y), *rest = points
    said = [f"M{_n(x)} {_n(y)}"]
    for to_x, to_y in rest:
        if abs(to_x - x) < 0.5:
            said.append(f"L{_n(to_x)} {_n(to_y)}")
        else:
            middle = _n((y + to_y) / 2)
            said.append(f"C{_n(x)} {middle} {_n(to_x)} {middle} {_n(to_x)} {_n(to_y)}")
        x, y = to_x, to_y
    return "".join(said)


def _branches(lines: list[tuple[int, int, str]], layout: Layout) -> Iterable[str]:
    """What decisions call the steps below them by, in the middle of the lines."""
    for (_, _, branch), points in zip(lines, layout.lines, strict=True):
        if branch:
            (x, y), (to_x, to_y) = points[:2]
            middle, width = (x + to_x) / 2, cells_of(branch) * SMALL_LETTER + 8
            yield (
                f'<rect class="paper" x="{_n(middle - width / 2)}" y="{_n((y + to_y) / 2 - 11)}" '
                f'width="{_n(width)}" height="16" rx="3"/>'
                f'<text class="branch" x="{_n(middle)}" y="{_n((y + to_y) / 2 + 1)}">{_text(branch)}</text>'
            )


def _drawn(box: Box, x: float, y: float) -> str:
    """A box around its centre."""
    w, h, shapes = box.width, box.height, list[str]()
    if box.stacked:  # what peeks out behind is a part of the box
        w, h, x, y = w - STACK, h - STACK, x - STACK / 2, y + STACK / 2
        shapes = [_rect(x - w / 2 + n, y - h / 2 - n, w, h, 6) for n in (STACK, STACK / 2)]
    left, top = x - w / 2, y - h / 2
    if box.kind == "decision":
        shapes.append(f'<path d="M{_n(x)} {_n(top)}l{_n(w / 2)} {_n(h / 2)}l{_n(-w / 2)} {_n(h / 2)}l{_n(-w / 2)} '
                      f'{_n(-h / 2)}z"/>')  # fmt: skip
    elif box.kind == "child":
        shapes += [_rect(left, top, w, h, 6), _rect(left + 4, top + 4, w - 8, h - 8, 3)]
    elif box.kind == "flow":
        shapes.append(f'<path d="M{_n(left)} {_n(y)}l12 {_n(-h / 2)}h{_n(w - 24)}l12 {_n(h / 2)}l-12 {_n(h / 2)}'
                      f'h{_n(24 - w)}z"/>')  # fmt: skip
    else:
        shapes.append(_rect(left, top, w, h, h / 2 if box.kind in ("gate", "timer") else 6))
    shift = 0.0
    if box.kind == "timer":
        shift = 8.0
        shapes.append(
            f'<circle cx="{_n(left + 18)}" cy="{_n(y)}" r="7"/>'
            f'<path class="mark" d="M{_n(left + 18)} {_n(y - 4)}v4l3 2"/>'
        )
    if box.undoes:
        shift -= 9.0
        right = x + w / 2 - (16 if box.kind != "decision" else 34)
        shapes.append(f'<path class="mark" d="M{_n(right - 8)} {_n(y + 4)}h6a4 4 0 0 0 0 -8h-6m3 -3l-3 3l3 3"/>')
    small = box.kind == "gate" and box.count == 1
    up = -3.5 if box.detail else 4.5
    words = [f'<text class="{"small" if small else "name"}" x="{_n(x + shift)}" y="{_n(y + (3.5 if small else up))}">'
             f"{_text(box.name)}</text>"]  # fmt: skip
    if box.detail:
        words.append(f'<text class="small" x="{_n(x + shift)}" y="{_n(y + 12.5)}">{_text(box.detail)}</text>')
    state = box.state if box.state in LOOKS else "waiting"
    return f'<g class="{state}"><title>{_text(box.tip)}</title>{"".join(shapes)}{"".join(words)}</g>'


def _rect(x: float, y: float, width: float, height: float, round: float) -> str:
    return f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" rx="{_n(round)}"/>'


def _legend(counts: list[tuple[str, int]], width: float) -> Iterable[tuple[str, str, float, float]]:
    """Each state that is seen, how many steps are in it, and where that stands: in as many rows as it needs."""
    x, y = _MARGIN, 0.0
    for state, count in counts:
        said = f"{state} {count:,}"
        room = 20 + len(said) * SMALL_LETTER * 1.1 + 18
        if x > _MARGIN and x + room > width - _MARGIN / 2:
            x, y = _MARGIN, y + _ROW
        yield state, said, x, y
        x += room


def _style(shown: Iterable[str]) -> str:
    """Every rule begins with our class: the picture may stand inside a page."""
    fixed = (
        ".lq-workflow{font-family:system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif}"
        ".lq-workflow text{text-anchor:middle;font-size:13px}.lq-workflow .title{font-size:15px;font-weight:600}"
        ".lq-workflow .small,.lq-workflow .branch{font-size:10.5px}"
        ".lq-workflow .legend{font-size:11px;text-anchor:start}"
        ".lq-workflow .line,.lq-workflow .mark{fill:none;stroke-width:1.3}.lq-workflow .pale{stroke-dasharray:4 3}"
        ".lq-workflow .head{stroke:none}.lq-workflow .running rect{stroke-width:2.4}"
    )
    looks = [PLAIN, *shown]
    dashed = [f".lq-workflow .{state} {one}" for state in looks if look_of(state).dashed for one in ("rect", "path")]
    dashes = (
        f"{','.join(dashed)}{{stroke-dasharray:4 3}}.lq-workflow path.mark{{stroke-dasharray:none!important}}"
        if dashed
        else ""
    )
    return f"{fixed}{dashes}{_colours(looks, 0)}@media(prefers-color-scheme:dark){{{_colours(looks, 1)}}}"


def _colours(states: list[str], night: int) -> str:
    paper, ink, line, pale = _PAPER[night], _INK[night], _LINES[night], _PALE[night]
    rules = [
        f".lq-workflow .paper{{fill:{paper};stroke:none}}",
        f".lq-workflow .title,.lq-workflow .branch{{fill:{ink}}}",
        f".lq-workflow .line{{stroke:{line}}}.lq-workflow .head{{fill:{line}}}",
        f".lq-workflow .pale.line{{stroke:{pale}}}.lq-workflow .pale.head{{fill:{pale}}}",
    ]
    for state in states:
        fill, stroke, text = look_of(state).dark if night else look_of(state).light
        own = f".lq-workflow .{state}"
        rules.append(f"{own} rect,{own} path,{own} circle{{fill:{fill};stroke:{stroke}}}{own} text{{fill:{text}}}")
        rules.append(f"{own} .mark{{fill:none;stroke:{text}}}")
    rules.append(f".lq-workflow .legend{{fill:{ink}!important}}")
    return "".join(rules)


def _text(text: str) -> str:
    return escape(_FORBIDDEN.sub("\ufffd", text), {'"': "&quot;"})


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
