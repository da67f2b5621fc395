"""`Workflow`: steps that come after steps, declared once and started as often as one likes."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload
from uuid import uuid4

import msgspec

from localqueue.errors import IdTaken, RecordConflict
from localqueue.policies._limits import require_integer, require_seconds
from localqueue.queue.drafts import check_key
from localqueue.results import ResultStore
from localqueue.stores.port import Changes, QueueStore
from localqueue.tasks.task import task_name
from localqueue.tasks.values import Misfit, plain
from localqueue.workflows.declaration import check_cycle, is_again, step_of
from localqueue.workflows.definition import Definition
from localqueue.workflows.errors import InvalidWorkflow, RunMismatch, WorkflowError
from localqueue.workflows.history import History
from localqueue.workflows.launch import launch
from localqueue.workflows.options import PlaceOptions, StepOptions
from localqueue.workflows.place import store_of
from localqueue.workflows.run import Run
from localqueue.workflows.step import Kind, Step, checked_name
from localqueue.workflows.values import INLINE_LIMIT, Values
from localqueue.workflows.wake import wake

if TYPE_CHECKING:
    from localqueue.tasks.worker import TaskWorker, TaskWorkerOptions

Identity = Literal["new", "input"]
KEEP = 30 * 86400.0


class Workflow:
    """A named, numbered graph of steps. What may change while runs are under way is what a step does; where the steps
    themselves change, give the new graph another `version`.

    Messages of its steps go to the queue `queue` (its own name unless given) where they name no other. Results and
    inputs of more than `inline_limit` bytes are kept beside the runs, in `result_store` or in the store itself. Workers
    forget runs `keep` seconds after they ended; None keeps them for ever.
    """

    def __init__(
        self,
        name: str,
        *,
        version: int = 1,
        queue: str | None = None,
        result_store: ResultStore | None = None,
        inline_limit: int = INLINE_LIMIT,
        keep: float | None = KEEP,
    ) -> None:
        self.name = checked_name("workflow", name)
        if require_integer("version", version) < 1:
            raise InvalidWorkflow(f"the version of a workflow is 1 or more, not {version}")
        if require_integer("inline_limit", inline_limit) < 0:
            raise ValueError(f"inline_limit can not be negative, this is {inline_limit}")
        if keep is not None:
            require_seconds("keep", keep)
        self.version = version
        self.queue = queue or name
        self.keep = keep
        self.values = Values(result_store, inline_limit)
        self._steps: dict[str, Step] = {}
        self._named: set[str] = set()  # what steps come after
        self._definition: Definition | None = None
        self._started = False

    # declaring

    @overload
    def step(self, function: Callable[..., Any], /) -> Step: ...
    @overload
    def step(self, **options: Unpack[StepOptions]) -> Callable[[Callable[..., Any]], Step]: ...
    def step(self, *function: Callable[..., Any], **options: Any) -> Any:
        """Make a step of a function, which is called with a context: as a decorator, with or without arguments.

        It runs when all steps that it comes `after` are done. It is retried, timed, limited and run in threads,
        processes or on an event loop as a task is; `key` is a function of its run's `input` and `item`. With `each`, a
        step above or a function that returns a list, it runs once for each item, or for each `batch` of them. `on` and
        `needs` say when it runs below a decision. `compensate` undoes it when the run fails later on.
        """
        declare = self._declaration("step", options)
        return declare(*function) if function else declare

    @overload
    def decision(self, function: Callable[..., Any], /) -> Step: ...
    @overload
    def decision(
        self, *, branches: Sequence[str] | None = None, exclusive: bool = False, **options: Unpack[StepOptions]
    ) -> Callable[[Callable[..., Any]], Step]: ...
    def decision(self, *function: Callable[..., Any], **options: Any) -> Any:
        """A step that chooses which of the steps directly after it run: it returns the name of one, a list of names, or
        None. A step with `on=` is chosen by that label instead of its name.

        What is not chosen is skipped, and so is what comes after nothing but skipped steps. `branches` are all labels
        that it may return; one that is `exclusive` chooses one at most.
        """
        declare = self._declaration("decision", options)
        return declare(*function) if function else declare

    @overload
    def flow(self, function: Callable[..., Any], /) -> Step: ...
    @overload
    def flow(self, **options: Unpack[StepOptions]) -> Callable[[Callable[..., Any]], Step]: ...
    def flow(self, *function: Callable[..., Any], **options: Any) -> Any:
        """Make a durable function of a coroutine function: it is all there is of this workflow."""
        declare = self._declaration("flow", options)
        return declare(*function) if function else declare

    def gate(self, name: str, **options: Unpack[PlaceOptions]) -> Step:
        """A step that does nothing: it joins those it comes after, for many that come after it."""
        return self._add(None, "gate", name, dict(options))

    def timer(self, name: str, seconds: float, **options: Unpack[PlaceOptions]) -> Step:
        """A step that is done so many seconds after those it comes after."""
        if require_seconds("seconds", seconds) < 0:
            raise InvalidWorkflow(f"timer {name!r} can not be done before it begins: seconds is {seconds}")

        def rest(ctx: Any) -> None:
            ctx.sleep(seconds)

        return self._add(rest, "timer", name, {**options, "seconds": seconds})

    def child(
        self,
        name: str,
        workflow: Workflow,
        *,
        input: Callable[..., Any] | None = None,
        compensate: Callable[..., Any] | None = None,
        **options: Unpack[PlaceOptions],
    ) -> Step:
        """A step that is a run of another workflow, started with what `input` makes of the context, or with the input
        of this run. Its result is that of the last step there, or those of the last ones by name."""
        if not isinstance(workflow, Workflow):
            raise TypeError(f"the child of a workflow is a Workflow, not {workflow!r}")
        if workflow is self:
            raise InvalidWorkflow(f"workflow {self.name!r} can not be its own child")
        return self._add(
            None, "child", name, {**options, "child": workflow, "child_input": input, "compensate": compensate}
        )

    def _declaration(self, kind: Kind, options: dict[str, Any]) -> Callable[[Callable[..., Any]], Step]:
        name = options.pop("name", None)

        def declare(function: Callable[..., Any]) -> Step:
            if isinstance(function, Step):
                raise InvalidWorkflow(f"{function!r} is a step already; make another of its function")
            if not callable(function):
                raise TypeError(f"a {kind} is made of a function, not of {function!r}")
            if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
                raise InvalidWorkflow(f"{function!r} is a generator, which nobody would iterate; return a list instead")
            if kind == "flow" and not inspect.iscoroutinefunction(function):
                raise InvalidWorkflow(f"a flow is a coroutine function; write async def {task_name(function)}(ctx)")
            return self._add(function, kind, name or task_name(function), options)

        return declare

    def _add(self, function: Callable[..., Any] | None, kind: Kind, name: str, options: dict[str, Any]) -> Step:
        step = step_of(self.queue, function, kind, checked_name("step", name), dict(options))
        known = self._steps.get(name)
        if known is not None and not is_again(known, step):
            raise InvalidWorkflow(f"workflow {self.name!r} has a step {name!r} already; give one of them a name=")
        if name in step.after:
            raise InvalidWorkflow(f"step {name!r} can not come after itself")
        if known is None and self._started:
            raise InvalidWorkflow(
                f"workflow {self.name!r} version {self.version} was used before step {name!r} was declared; declare "
                "all steps first"
            )
        self._steps[name] = step
        self._definition = None
        self._named.update(step.after)
        if name in self._named:  # which was named before it was there: only then can it close a cycle
            check_cycle(self.name, self._steps, name)
        return step

    @property
    def definition(self) -> Definition:
        """The graph, checked as a whole."""
        if self._definition is None:
            self._definition = Definition(self.name, self.version, self.queue, self._steps)
        return self._definition

    @property
    def steps(self) -> Mapping[str, Step]:
        return dict(self._steps)

    def validate(self) -> None:
        """Raise `InvalidWorkflow` for what is wrong with the steps. It is done before a run or a worker starts, too."""
        _ = self.definition

    # runs

    def start(
        self,
        store: str | QueueStore | None,
        input: Any = None,
        *,
        run_id: str | None = None,
        identity: Identity = "new",
    ) -> Run:
        """Begin a run; when this returns, it is stored and will be done. `input` is what JSON can hold.

        With `run_id`, a run of that id that is there already is returned and no second one begun; so it is with
        identity="input", where the id is made of the input.
        """
        if identity not in ("new", "input"):
            raise ValueError(f"identity must be 'new' or 'input', not {identity!r}; name a run yourself by run_id=")
        if run_id is not None and identity == "input":
            raise ValueError("a run has the id it is given or one made of its input; pass run_id= or identity=")
        given = self.checked_input(input)
        if identity == "input":
            digest = hashlib.sha256(msgspec.json.encode(given, order="sorted")).hexdigest()[:32]
            run_id = f"{self.name}-{self.version}-{digest}"
        if run_id is not None:
            check_key("run_id", run_id)
            if "\x1f" in run_id:
                raise ValueError(f"the id of a run has no unit separator in it, unlike {run_id!r}")
        definition, fresh, opened = self.definition, run_id or new_run_id(), store_of(store)
        return self.begin(opened, fresh, given, lambda: launch(definition, fresh, given, self.values, opened))

    def checked_input(self, given: Any) -> Any:
        """The input of a run as JSON holds it, or an error that says why it can not."""
        try:
            return plain(given, Any)
        except Misfit as misfit:
            raise WorkflowError(f"the input of workflow {self.name!r} can not be kept: {misfit}") from misfit

    def begin(self, store: QueueStore, run_id: str, given: Any, changes: Callable[[], Changes]) -> Run:
        """Commit what begins a run; one of this id that is there already is returned if it is the same."""
        self._started = True
        run = Run(store, run_id, self)
        while True:
            try:
                begun = changes()
                store.commit(begun)
            except IdTaken:
                continue
            except RecordConflict:
                self._require_same(store, run_id, given)
                return run
            break
        wake(store, {one.queue for one in begun.enqueue if not one.after})
        return run

    def _require_same(self, store: QueueStore, run_id: str, given: Any) -> None:
        history = History(store, self.values)
        header = history.header(run_id)
        if (header.workflow, header.version) != (self.name, self.version):
            raise RunMismatch(
                f"run {run_id!r} is one of workflow {header.workflow!r} version {header.version}, not of {self.name!r} "
                f"version {self.version}; give this one another run_id"
            )
        if history.input(run_id) != given:
            raise RunMismatch(
                f"run {run_id!r} was started with another input; give this one another run_id, or look at that one "
                f"with {self.name}.run(store, {run_id!r})"
            )

    def run(self, store: str | QueueStore | None, run_id: str) -> Run:
        """A run that was started before, by its id, or `RunMissing`."""
        return Run.find(store, run_id, self)

    def worker(
        self,
        store: str | QueueStore | None,
        *,
        also: Sequence[Workflow] = (),
        lease_timeout: float = 30.0,
        around: Callable[[], AbstractContextManager[object]] | None = None,
        queue_options: Mapping[str, Mapping[str, Any]] | None = None,
        **options: Unpack[TaskWorkerOptions],
    ) -> TaskWorker:
        """A worker for all queues of this workflow and its children, or for `queues`; see `TaskWorker` for the options.

        `also` are other workflows and other versions of this one, for runs that were started with them. A step whose
        worker dies is begun anew after `lease_timeout` seconds.
        """
        from localqueue.tasks.worker import TaskWorker
        from localqueue.workflows.registry import StepTasks

        if isinstance(also, Workflow):
            raise TypeError(f"also= takes a list of workflows, not {also!r}; write also=[...]")
        tasks = StepTasks(
            store_of(store),
            [self, *also],
            values=self.values,
            lease_timeout=lease_timeout,
            around=around,
            queues=queue_options,
        )
        self._started = True
        return TaskWorker(tasks, **options)

    # pictures

    def mermaid(self) -> str:
        """The graph as text for Mermaid."""
        from localqueue.workflows.mermaid import mermaid_of

        return mermaid_of(self.definition.shape)

    def svg(self) -> str:
        """The graph as a picture."""
        from localqueue.workflows.picture import picture_of

        return picture_of(self.definition.shape)

    def __repr__(self) -> str:
        return f"<Workflow {self.name} version {self.version}>"


def new_run_id() -> str:
    return uuid4().hex
