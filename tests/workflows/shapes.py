"""The shapes of workflows that engines are compared by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from localqueue.workflows import Workflow

#: Steps, and what each comes after.
Edges = Mapping[str, Sequence[str]]

LINEAR: Edges = {"a": [], "b": ["a"], "c": ["b"], "d": ["c"]}
DIAMOND: Edges = {"top": [], "left": ["top"], "right": ["top"], "bottom": ["left", "right"]}
SEVEN: Edges = {
    "init": [], "L": ["init"], "R": ["init"], "V": ["L", "R"], "T": ["L"], "A": ["R"], "F": ["V", "T", "A"],
}  # fmt: skip
TREE: Edges = {str(n): [] if n == 1 else [str(n // 2)] for n in range(1, 9)}
LAYERS: Edges = {
    **{f"gate {n}": [f"{n - 1}.{k}" for k in range(20)] if n else [] for n in range(5)},
    **{f"{n}.{k}": [f"gate {n}"] for n in range(5) for k in range(20)},
}
CHAIN: Edges = {str(n): [str(n - 1)] if n else [] for n in range(300)}
SHAPES = {"linear": LINEAR, "diamond": DIAMOND, "seven": SEVEN, "tree": TREE, "layers": LAYERS, "chain": CHAIN}


def above(edges: Edges, name: str) -> set[str]:
    """All that a step comes after, directly or through others."""
    found, new = set[str](), set(edges[name])
    while new:
        found |= new
        new = {up for one in new for up in edges[one]} - found
    return found


def shaped(name: str, edges: Edges, do: Callable[[Any], Any], **options: Any) -> Workflow:
    """A workflow of this shape; what is called a gate is one."""
    made = Workflow(name)
    for step, after in edges.items():
        if step.startswith("gate"):
            made.gate(step, after=list(after))
        else:
            made.step(name=step, after=list(after), **options)(do)
    return made
