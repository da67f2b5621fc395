from fastapi import FastAPI

from localqueue import Tasks, current_job

app, tasks = FastAPI(), Tasks()  # in the store that LOCALQUEUE_URL names; without it, a file of SQLite


@tasks.task(retries=5, retry_delay=0.2, retry_on=ConnectionError)
def charge(customer: str, cents: int) -> str:
    if current_job().message.attempts == 1:
        raise ConnectionError("the bank is busy")  # as it always is at first
    return f"{customer} has paid {cents / 100:.2f}"


@tasks.cron("0 7 * * *", zone="Europe/Lisbon", args=("owner@example.com", "Good morning"))
@tasks.task(queue="mails", rate="10/s")  # in all workers together
def send_mail(to: str, subject: str) -> str:
    return f"{subject}, {to}"


@app.post("/orders")
async def order(customer: str, cents: int) -> dict[str, str]:
    job = await charge.aenqueue(customer, cents)
    mail = await send_mail.options(after=[job]).aenqueue(customer, "Thank you")
    return {"order": job.id, "mail": mail.id}


@app.get("/orders/{job_id}")
async def receipt(job_id: str) -> str:
    return await charge.job(job_id).result_async(timeout=10)
