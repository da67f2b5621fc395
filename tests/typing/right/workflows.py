"""Steps are declared with functions of a context, plain and coroutine functions; runs and their status have types."""

from typing import Any, assert_type

from localqueue.workflows import (
    AsyncStepContext,
    FlowContext,
    Run,
    RunStatus,
    Step,
    StepContext,
    StepStatus,
    Workflow,
    forget_runs,
    list_runs,
)

order = Workflow("order", version=2, queue="orders", keep=None)


@order.step
def find(ctx: StepContext) -> list[str]:
    assert_type(ctx.run_id, str)
    assert_type(ctx.key, str)
    assert_type(ctx.attempt, int)
    return list(ctx.input["items"])


@order.step(each=find, batch=10, retries=3, retry_on=(ConnectionError,), timeout=30, rate="10/s", key=lambda run: "all")
def pick(ctx: StepContext) -> int:
    return sum(len(row) for row in ctx.rows(every=5))


@order.decision(after=[pick, "find"], branches=["mail", "post"], exclusive=True)
def choose(ctx: StepContext) -> str:
    assert_type(ctx.ran("pick"), bool)
    return "mail"


@order.step(after=[choose], on="mail", queue="io", compensate=lambda ctx: None)
async def send(ctx: AsyncStepContext) -> None:
    await ctx.sleep(1)
    await ctx.checkpoint({"page": 1})
    print(await ctx.wait_for("approval", timeout=5))


gate = order.gate("post", after=[choose], needs="all")
timer = order.timer("rest", 60, after=[gate])


def double(number: int) -> int:
    return 2 * number


flow = Workflow("flow")


@flow.flow
async def main(ctx: FlowContext) -> list[Any]:
    both = await ctx.gather(ctx.step(double, 1), ctx.options(retries=5, name="again").step(double, 2))
    await ctx.sleep(60)
    return [both, await ctx.wait_for("go")]


other = Workflow("other")


@other.flow(retries=0)
async def quick(ctx: FlowContext) -> int:
    return int(await ctx.step(double, 1))


def direct(run: Run) -> None:
    assert_type(run.wait(timeout=5), RunStatus)
    assert_type(run.status().steps, tuple[StepStatus, ...])
    assert_type(run.cancel(compensate=True), bool)
    assert_type(run.retry(), int)
    assert_type(run.fork("pick", input={"items": []}), Run)
    assert_type(run.timeline(), str)


assert_type(find, Step)
assert_type(gate, Step)
assert_type(main, Step)
assert_type(quick, Step)
assert_type(order.start("sqlite:///jobs.db", {"items": ["lamp"]}, run_id="one"), Run)
assert_type(order.start(None, identity="input"), Run)
assert_type(list_runs(None, workflow="order", state="failed"), list[RunStatus])
assert_type(forget_runs(None, older_than=3600), int)
order.worker(None, also=[flow], queues={"orders": 3, "io": 1}, concurrency=4, lease_timeout=10).run_until_empty()
