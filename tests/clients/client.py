"""A client of the official Python SDK for tests/mcp, controlled by standard input.

The one argument says how to connect. Each line of standard input is a request, and is answered by
one line: {"ok": ...}, or {"error": {"code": ..., "message": ...}} for an exception of the SDK.
"""

import json
import math
import sys
from typing import ClassVar, Literal

import anyio
import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.extension import ClientExtension, ResultClaim
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, ElicitResult, Request, RequestParams, Result
from pydantic import ConfigDict


class Person:
    """The user: answers elicitations with the given action, and stores the questions."""

    def __init__(self):
        self.action = "decline"
        self.asked = []

    async def answer(self, _context, params):
        self.asked.append(params.message)
        content = {} if self.action == "accept" else None
        return ElicitResult(action=self.action, content=content)


async def call(client, person, request):
    """Calls a tool; with `cancel`, cancels the call once it has reported progress."""
    person.action = request.get("person", "decline")
    person.asked = []
    progress = []
    result = None
    with anyio.CancelScope() as scope:

        async def on_progress(done, total, message):
            progress.append([done, total, message])
            if request.get("cancel"):
                scope.cancel()

        arguments = request.get("arguments", {})
        result = await client.call_tool(request["tool"], arguments, progress_callback=on_progress)
        result = plain(result)
    return {"result": result, "progress": progress, "asked": person.asked}


class Task(Result):
    """A task, as the answer to a call and as its state."""

    model_config = ConfigDict(extra="allow")
    result_type: Literal["task"] = "task"


class TaskState(Result):
    model_config = ConfigDict(extra="allow")


class GetTaskParams(RequestParams):
    task_id: str


class GetTask(Request[GetTaskParams, Literal["tasks/get"]]):
    name_param: ClassVar[str | None] = "taskId"
    method: Literal["tasks/get"] = "tasks/get"


async def task_state(session, task):
    params = GetTaskParams(task_id=task)
    return plain(await session.send_request(GetTask(params=params), TaskState))


class Tasks(ClientExtension):
    """Waits for the results of calls that became tasks."""

    identifier = "io.modelcontextprotocol/tasks"

    def claims(self):
        return [ResultClaim(result_type="task", model=Task, resolve=self.resolve)]

    async def resolve(self, task, context):
        while True:
            state = await task_state(context.session, plain(task)["taskId"])
            if state["status"] == "completed":
                return CallToolResult.model_validate(state["result"])
            await anyio.sleep(state["pollIntervalMs"] / 1000)


class Changes:
    """Receives the notifications that the list of tools has changed."""

    def __init__(self):
        self.sender, self.receiver = anyio.create_memory_object_stream(math.inf)

    async def handle(self, message):
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            await self.sender.send(None)

    async def listen(self, client, *, task_status):
        async with client.listen(tools_list_changed=True) as subscription:
            task_status.started()
            async for _event in subscription:
                await self.sender.send(None)


async def do(client, person, changes, request):
    match request["do"]:
        case "change":
            return await changes.receiver.receive()
        case "tools":
            page = await client.list_tools()
            return {"tools": plain(page)["tools"], "more": page.next_cursor is not None}
        case "call":
            return await call(client, person, request)
        case "begin":
            called = client.session.call_tool(
                request["tool"], request["arguments"], allow_claimed=True
            )
            return plain(await called)
        case "task":
            return await task_state(client.session, request["task"])
        case "resources":
            return plain(await client.list_resources())["resources"]
        case "templates":
            return plain(await client.list_resource_templates())["resourceTemplates"]
        case "read":
            return plain(await client.read_resource(request["uri"]))["contents"]
        case "prompts":
            return plain(await client.list_prompts())["prompts"]
        case "prompt":
            return plain(await client.get_prompt(request["name"], request["arguments"]))
        case other:
            raise ValueError(other)


def plain(model):
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def say(answer):
    print(json.dumps(answer), flush=True)


def failure(error):
    code = error.code if isinstance(error, MCPError) else None
    return {"error": {"code": code, "message": str(error) or repr(error)}}


def transport(wanted):
    if "url" not in wanted:
        program, *arguments = wanted["command"]
        return stdio_client(
            StdioServerParameters(
                command=program,
                args=arguments,
                cwd=wanted["directory"],
                env=wanted["environment"],
            )
        )
    headers = {"Authorization": "Bearer " + wanted["token"]} if wanted.get("token") else {}
    http = httpx2.AsyncClient(headers=headers, timeout=120)
    return streamable_http_client(wanted["url"], http_client=http)


async def main():
    wanted = json.loads(sys.argv[1])
    person = Person()
    changes = Changes()
    client = Client(
        transport(wanted),
        mode="legacy" if wanted["era"] == "legacy" else "auto",
        elicitation_callback=person.answer if wanted["elicitation"] else None,
        message_handler=changes.handle,
        extensions=[Tasks()] if wanted["tasks"] else None,
    )
    async with client, anyio.create_task_group() as tasks:
        if wanted["listens"] and wanted["era"] != "legacy":
            await tasks.start(changes.listen, client)
        say({"ok": {"revision": client.protocol_version, "server": client.server_info.name}})
        while line := await anyio.to_thread.run_sync(sys.stdin.readline):
            try:
                say({"ok": await do(client, person, changes, json.loads(line))})
            except Exception as error:
                say(failure(error))
        tasks.cancel_scope.cancel()


try:
    anyio.run(main)
except Exception as error:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    say(failure(error))
