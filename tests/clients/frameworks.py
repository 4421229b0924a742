"""Agents of Python frameworks for tests/mcp: all make the same calls in the same order.

Arguments: the framework, and a JSON document: {"calls": [{"tool": ..., "arguments": ...}], "url": ...}.

There are two sessions. The first one is the framework's example in docs/mcp.md, in a directory that
holds `project` and with `cofferdam` on PATH; the second one is with the server at `url`, over HTTP.

Prints {"sessions": [{"tools": [...], "answers": [...]}], "logged": [...], "ended": [...]}: the names of
the tools that the model is told, what it gets for each call ({"text", "structured", "failed"}, as far as
the framework shows them), warnings and errors that the libraries log, and the responses to requests that
end a session.
"""

import ast
import asyncio
import json
import logging
import pathlib
import sys

MANUAL = pathlib.Path(__file__).parents[2] / "docs/mcp.md"


class Script:
    """The calls that a model makes, and what it has got."""

    def __init__(self, calls):
        self.calls = calls
        self.tools = []
        self.answers = []

    def next(self):
        """The next call, or None after the last one."""
        made = len(self.answers)
        return self.calls[made] if made < len(self.calls) else None

    def got(self, text, failed, structured=None):
        self.answers.append({"text": text, "failed": failed, "structured": structured})


class Logged(logging.Handler):
    """Collects what the libraries log."""

    def __init__(self):
        super().__init__()
        self.warnings = []
        self.ended = []

    def emit(self, record):
        message = record.getMessage()
        if record.levelno >= logging.WARNING:
            self.warnings.append(f"{record.name}: {message}")
        if "HTTP Request: DELETE" in message:
            self.ended.append(message.split(' "', 1)[1].strip('"'))


async def follow_the_manual(title, names):
    """Executes the example of a framework in the manual, with some variables."""
    for block in MANUAL.read_text().split("```python\n")[1:]:
        for example in block.split("```")[0].split("\n\n# "):
            heading, code = example.removeprefix("# ").split("\n", 1)
            if heading == title:
                compiled = compile(code, title, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                if coroutine := eval(compiled, names):
                    await coroutine
                return
    raise ValueError(f"docs/mcp.md has no example for {title}")


def joined(blocks):
    """The text of MCP's content blocks."""
    return "\n".join(getattr(block, "text", None) or str(block) for block in blocks)


async def pydantic_ai(script, url):
    from pydantic_ai import Agent, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.mcp import MCPToolset
    from pydantic_ai.messages import ToolReturnPart
    from pydantic_ai.models.function import FunctionModel

    def respond(messages, info):
        script.tools = [tool.name for tool in info.function_tools]
        for part in messages[-1].parts:
            if isinstance(part, ToolReturnPart):
                text = part.content if isinstance(part.content, str) else json.dumps(part.content)
                script.got(text, part.outcome != "success")
        call = script.next()
        part = ToolCallPart(call["tool"], call["arguments"]) if call else TextPart("done")
        return ModelResponse(parts=[part])

    model = FunctionModel(respond)
    if url:
        await Agent(model, toolsets=[MCPToolset(url)]).run("task")
    else:
        await follow_the_manual("pydantic-ai", {"model": model, "task": "task"})


async def openai_agents(script, url):
    from agents import Agent, Model, ModelResponse, Runner, Usage, set_tracing_disabled
    from agents.mcp import MCPServerStreamableHttp
    from openai.types.responses import (
        ResponseFunctionToolCall,
        ResponseOutputMessage,
        ResponseOutputText,
    )

    class Scripted(Model):
        async def get_response(self, system_instructions, input, model_settings, tools, *_, **__):
            script.tools = [tool.name for tool in tools]
            last = input[-1]
            if isinstance(last, dict) and last.get("type") == "function_call_output":
                output = last["output"]
                texts = [output] if isinstance(output, str) else [part["text"] for part in output]
                script.got("\n".join(texts), None)
            call = script.next()
            number = len(script.answers)
            if call:
                output = ResponseFunctionToolCall(
                    type="function_call",
                    call_id=f"call-{number}",
                    name=call["tool"],
                    arguments=json.dumps(call["arguments"]),
                )
            else:
                text = ResponseOutputText(type="output_text", text="done", annotations=[])
                output = ResponseOutputMessage(
                    type="message", id="last", role="assistant", status="completed", content=[text]
                )
            return ModelResponse(output=[output], usage=Usage(), response_id=None)

        def stream_response(self, *_, **__):
            raise NotImplementedError

    set_tracing_disabled(True)
    model = Scripted()
    if url:
        async with MCPServerStreamableHttp({"url": url}) as server:
            agent = Agent(name="coder", model=model, mcp_servers=[server])
            await Runner.run(agent, "task", max_turns=20)
    else:
        await follow_the_manual("openai-agents", {"model": model, "task": "task"})


async def langchain(script, url):
    from langchain_mcp_adapters.client import MultiServerMCPClient
    from langchain_mcp_adapters.tools import load_mcp_tools

    async def work(tools):
        named = {tool.name: tool for tool in tools}
        script.tools = list(named)
        while call := script.next():
            request = {
                "type": "tool_call",
                "id": "call",
                "name": call["tool"],
                "args": call["arguments"],
            }
            message = await named[call["tool"]].ainvoke(request)
            content = message.content
            if not isinstance(content, str):
                content = "\n".join(block.get("text") or str(block) for block in content)
            artifact = message.artifact or {}
            structured = artifact.get("structured_content")
            script.got(content, message.status == "error", structured)

    if url:
        client = MultiServerMCPClient({"cofferdam": {"transport": "streamable_http", "url": url}})
        async with client.session("cofferdam") as session:
            await work(await load_mcp_tools(session))
    else:
        await follow_the_manual("langchain-mcp-adapters", {"work": work})


async def fastmcp(script, url):
    from fastmcp import Client

    async def work(client):
        script.tools = [tool.name for tool in await client.list_tools()]
        while call := script.next():
            tool, arguments = call["tool"], call["arguments"]
            result = await client.call_tool(tool, arguments, raise_on_error=False)
            script.got(joined(result.content), result.is_error, result.structured_content)

    if url:
        async with Client(url) as client:
            await work(client)
    else:
        await follow_the_manual("fastmcp", {"work": work})


def main():
    framework, wanted = sys.argv[1], json.loads(sys.argv[2])
    logged = Logged()
    logging.basicConfig(level=logging.INFO, handlers=[logged])
    logging.captureWarnings(True)
    sessions = []
    for url in (None, wanted["url"]):
        script = Script(wanted["calls"])
        asyncio.run(globals()[framework](script, url))
        sessions.append({"tools": script.tools, "answers": script.answers})
    print(json.dumps({"sessions": sessions, "logged": logged.warnings, "ended": logged.ended}))


main()
