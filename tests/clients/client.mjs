// A client of the official TypeScript SDK, controlled by standard input: see client.py.

import { createInterface } from 'node:readline';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const wanted = JSON.parse(process.argv[2]);
const { resolve } = createRequire(wanted.modules);
const load = async (name) => import(pathToFileURL(resolve(name)));
const { Client, StreamableHTTPClientTransport } = await load('@modelcontextprotocol/client');
const { StdioClientTransport } = await load('@modelcontextprotocol/client/stdio');

const say = (answer) => console.log(JSON.stringify(answer));
const failure = (error) => ({ error: { code: error.code ?? null, message: String(error.message) } });

const person = { action: 'decline', asked: [] };

// Receives the notifications that the list of tools has changed.
const changes = { heard: 0, waiting: null };
function onChanged() {
    changes.heard += 1;
    changes.waiting?.();
}
async function change() {
    if (changes.heard === 0) await new Promise((resolve) => (changes.waiting = resolve));
    changes.heard -= 1;
    return null;
}

const client = new Client(
    { name: 'tests', version: '0' },
    {
        capabilities: {
            ...(wanted.elicitation && { elicitation: {} }),
            ...(wanted.tasks && { extensions: { 'io.modelcontextprotocol/tasks': {} } }),
        },
        ...(wanted.listens && { listChanged: { tools: { autoRefresh: false, onChanged } } }),
        versionNegotiation: { mode: wanted.era === 'legacy' ? 'legacy' : { pin: '2026-07-28' } },
    },
);
if (wanted.elicitation) {
    client.setRequestHandler('elicitation/create', async ({ params }) => {
        person.asked.push(params.message);
        return person.action === 'accept'
            ? { action: 'accept', content: {} }
            : { action: person.action };
    });
}

function transport() {
    if (wanted.url) {
        const headers = wanted.token ? { Authorization: `Bearer ${wanted.token}` } : {};
        return new StreamableHTTPClientTransport(new URL(wanted.url), { requestInit: { headers } });
    }
    const [command, ...args] = wanted.command;
    return new StdioClientTransport({
        command,
        args,
        cwd: wanted.directory,
        env: wanted.environment,
    });
}

// Calls a tool; with `cancel`, cancels the call once it has reported progress.
async function call(request) {
    person.action = request.person ?? 'decline';
    person.asked = [];
    const progress = [];
    const giveUp = new AbortController();
    const options = {
        signal: giveUp.signal,
        timeout: 120_000,
        onprogress: (report) => {
            progress.push([report.progress, report.total ?? null, report.message ?? null]);
            if (request.cancel) giveUp.abort();
        },
    };
    const params = { name: request.tool, arguments: request.arguments ?? {} };
    const result = await client.callTool(params, options).catch((error) => {
        if (giveUp.signal.aborted) return null;
        throw error;
    });
    return { result, progress, asked: person.asked };
}

// A schema that every result fits.
const anything = {
    '~standard': { version: 1, vendor: 'tests', validate: (value) => ({ value }) },
};

async function answer(request) {
    switch (request.do) {
        case 'change':
            return change();
        case 'tools': {
            const page = await client.listTools();
            return { tools: page.tools, more: page.nextCursor !== undefined };
        }
        case 'call':
            return call(request);
        case 'task':
            return client.request({ method: 'tasks/get', params: { taskId: request.task } }, anything);
        case 'resources':
            return (await client.listResources()).resources;
        case 'templates':
            return (await client.listResourceTemplates()).resourceTemplates;
        case 'read':
            return (await client.readResource({ uri: request.uri })).contents;
        case 'prompts':
            return (await client.listPrompts()).prompts;
        case 'prompt':
            return client.getPrompt({ name: request.name, arguments: request.arguments });
        default:
            throw new Error(request.do);
    }
}

try {
    await client.connect(transport());
} catch (error) {
    say(failure(error));
    process.exit();
}
say({ ok: { revision: client.getNegotiatedProtocolVersion(), server: client.getServerVersion().name } });
for await (const line of createInterface({ input: process.stdin })) {
    try {
        say({ ok: await answer(JSON.parse(line)) });
    } catch (error) {
        say(failure(error));
    }
}
await client.close();
