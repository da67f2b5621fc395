"""What a workflow can not be declared and started with."""

from localqueue.workflows import StepContext, Workflow

order = Workflow("order")


@order.step
def find(ctx: StepContext) -> list[str]:
    return []


@order.step(after=[find], retries="3")  # error
def charge(ctx: StepContext) -> None: ...


@order.step(after=[find], needs="most")  # error
def send(ctx: StepContext) -> None: ...


@order.step(afterwards=[find])  # error
def pack(ctx: StepContext) -> None: ...


order.gate("all", after=[1])  # error
order.timer("rest", "a minute", after=[find])  # error
order.start(None, identity="other")  # error
order.worker(None, also=["order"])  # error
order.worker(None, threads=3)  # error
run = order.start(None)
run.cancel("now")  # error
run.wait(timeout="long")  # error
