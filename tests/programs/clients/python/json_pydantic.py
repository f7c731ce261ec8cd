"""FastAPI sends and reads an order, as Pydantic has it in JSON."""

import asyncio
from typing import Annotated

from fastapi import FastAPI
from pydantic import BaseModel, PlainSerializer

# recipe
Id = Annotated[int, PlainSerializer(str, return_type=str, when_used="json")]


class Order(BaseModel):
    id: Id
    # end


app = FastAPI()


@app.post("/orders")
async def order(order: Order) -> Order:
    assert order.id == 2125412474722189368
    return order


async def respond(body):
    """What the application answers."""
    scope = {
        "type": "http", "method": "POST", "path": "/orders", "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
    }
    messages = []

    async def receive():
        return {"type": "http.request", "body": body}

    async def send(message):
        messages.append(message)

    await app(scope, receive, send)
    return b"".join(message.get("body", b"") for message in messages).decode()


print(asyncio.run(respond(b'{"id":"2125412474722189368"}')))
schemas = app.openapi()["components"]["schemas"]
assert schemas["Order-Output"]["properties"]["id"]["type"] == "string", schemas
