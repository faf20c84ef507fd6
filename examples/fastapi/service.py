"""A service whose endpoints are slow for different reasons, and one that wants to know who asks.

Run it with ``uvicorn service:app`` in this folder, then put load on it with one of the locustfiles
beside it, or with those of ``../loads``.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from typing import Annotated

from fastapi import Depends, FastAPI, Header, HTTPException
from pydantic import BaseModel

from trilat.middleware import TrilatMiddleware

__all__ = ["app"]

DOWNSTREAM_S = 0.020
"""How long the imagined database or other service takes."""

app = FastAPI(title="trilat example")
# Added last is outermost: nothing else may answer, or wait, outside of it.
app.add_middleware(TrilatMiddleware)


@app.get("/health")
async def health() -> dict[str, str]:
    """Answer at once: what is left is the framework's own time."""
    return {"status": "ok"}


@app.get("/item/{item_id}")
async def item(item_id: int) -> dict[str, int]:
    """Await a downstream call of 20 ms, as a service that does it right: others go on meanwhile."""
    await asyncio.sleep(DOWNSTREAM_S)
    return {"id": item_id, "stock": item_id % 7}


@app.get("/blocking")
async def blocking() -> dict[str, str]:
    """Wait for 20 ms without giving the event loop back: one request at a time, all others queue.

    This request's time shows as ``service.app``, and that of the requests behind it as
    ``service.queue``.
    """
    time.sleep(DOWNSTREAM_S)
    return {"waited": "with the loop"}


@app.get("/sync")
def sync() -> dict[str, str]:
    """Wait for 20 ms in the thread pool: the 41st concurrent request waits for a free thread."""
    time.sleep(DOWNSTREAM_S)
    return {"waited": "in a thread"}


@app.get("/cpu")
async def cpu(rounds: int = 50_000) -> dict[str, int]:
    """Compute on the event loop: some 5 ms of processor time that nobody else gets."""
    total = 0
    for number in range(min(rounds, 1_000_000)):
        total = (total + number * number) % 1_000_003
    return {"total": total}


# An exam: students sign in, read questions, save answers, and hand in. Who is signed in is told by
# the token alone, so that any worker of the service can answer.
_KEY = b"of an example"
_ROUNDS = 10_000


class Account(BaseModel):
    """Who signs in; in this example, everybody's password is the name read backwards."""

    name: str
    password: str


def _token(name: str) -> str:
    return f"{name}:{hmac.new(_KEY, name.encode(), 'sha256').hexdigest()}"


def student(authorization: Annotated[str, Header()] = "") -> str:
    """The name of who asks.

    Raises:
        HTTPException: nobody has signed in with this token.
    """
    token = authorization.removeprefix("Bearer ")
    name = token.partition(":")[0]
    if not hmac.compare_digest(token.encode(), _token(name).encode()):
        raise HTTPException(401, "sign in first")
    return name


Student = Annotated[str, Depends(student)]


@app.post("/sign-in")
def sign_in(account: Account) -> dict[str, str]:
    """Look at the password as slowly as one should: some 5 ms of processor time, in a thread."""
    given, right = (
        hashlib.pbkdf2_hmac("sha256", word.encode(), _KEY, _ROUNDS)
        for word in (account.password, account.name[::-1])
    )
    if not hmac.compare_digest(given, right):
        raise HTTPException(403, "wrong name or password")
    return {"token": _token(account.name)}


@app.get("/items")
async def items(_: Student) -> dict[str, list[int]]:
    """The numbers of the questions; each is an item."""
    await asyncio.sleep(DOWNSTREAM_S)
    return {"items": list(range(1, 31))}


@app.put("/answers/{item_id}")
async def answer(item_id: int, name: Student) -> dict[str, str | int]:
    """Save an answer, or what stands for it: a downstream call."""
    await asyncio.sleep(DOWNSTREAM_S)
    return {"item": item_id, "of": name}


@app.post("/hand-in")
async def hand_in(name: Student) -> dict[str, str]:
    """Hand in all answers, which takes three downstream calls."""
    await asyncio.sleep(3 * DOWNSTREAM_S)
    return {"handed_in_by": name}
