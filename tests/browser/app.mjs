// Shows the app of held changes in Chromium, as a client that knows MCP Apps does: the official client, the
// client's side of the extension, and the app in a frame without rights. Reads one JSON line: {modules,
// chromium, command, directory, environment, files}: where the packages are, the browser, the server, and files
// to write. Asks for an open console by the line {"want": "console"} and for a decision by {"want": "accept"}, and goes
// on with the next line.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { createInterface } from "node:readline/promises";
import { pathToFileURL } from "node:url";

import { load, start, until } from "./page.mjs";

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const given = JSON.parse((await lines.next()).value);
const { resolve } = createRequire(given.modules);
const module = (name) => import(pathToFileURL(resolve(name)));
const { Client } = await module("@modelcontextprotocol/client");
const { StdioClientTransport } = await module("@modelcontextprotocol/client/stdio");
const { AppBridge, RESOURCE_MIME_TYPE } = await module("@modelcontextprotocol/ext-apps/app-bridge");
const { source: axe } = load(given.modules, "axe-core");

const KNOWS_APPS = { extensions: { "io.modelcontextprotocol/ui": { mimeTypes: [RESOURCE_MIME_TYPE] } } };

async function connect(capabilities) {
  const client = new Client({ name: "tests", version: "0" }, { capabilities });
  const [command, ...args] = given.command;
  const { directory: cwd, environment: env } = given;
  await client.connect(new StdioClientTransport({ command, args, cwd, env, stderr: "ignore" }));
  const { tools } = await client.listTools();
  const page = (name) => tools.find((tool) => tool.name === name)._meta?.ui?.resourceUri;
  return { client, page };
}

// A client that does not know apps hears nothing of them.
const plain = await connect({});
assert.equal(plain.page("write_file"), undefined);
await plain.client.close();

const { client, page: pageOf } = await connect(KNOWS_APPS);
const address = pageOf("write_file");
assert.equal(address, "ui://cofferdam/held");
assert.equal(pageOf("read_file"), undefined, "it changes nothing");
const [content] = (await client.readResource({ uri: address })).contents;
assert.equal(content.mimeType, RESOURCE_MIME_TYPE);
assert.equal(content._meta.ui.csp, undefined);

const browser = await start(given);
const page = await browser.newPage();
const problems = [];
page.on("pageerror", (error) => problems.push(String(error)));
page.on("dialog", (dialog) => problems.push(dialog.message()) && dialog.dismiss());
page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
page.on("request", (request) => problems.push(`a request: ${request.url()}`));

// The content's policy of a client where an app has asked for nothing.
const policy =
  "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; connect-src 'none'";
const head = `<meta http-equiv="Content-Security-Policy" content="${policy}">`;
const html = content.text.replace("<head>", `<head>${head}`);
assert.notEqual(html, content.text);
// Its own policy is as strict, for clients that set none.
assert.match(content.text, /http-equiv="Content-Security-Policy" content="default-src 'none';/);

// Messages of the frame come here, and those of the client's side go to it.
const transport = {
  async start() {
    await page.exposeFunction("received", (message) => transport.onmessage?.(message));
    await page.setContent('<iframe id="app" sandbox="allow-scripts" width="900" height="700"></iframe>');
    await page.evaluate((html) => {
      const frame = document.getElementById("app");
      addEventListener("message", ({ data, source }) => {
        if (source === frame.contentWindow) received(data);
      });
      frame.srcdoc = html;
    }, html);
  },
  async send(message) {
    await page.evaluate((message) => {
      document.getElementById("app").contentWindow.postMessage(message, "*");
    }, message);
  },
  async close() {},
};
const bridge = new AppBridge(client, { name: "tests", version: "0" }, { serverResources: {}, openLinks: {} }, { hostContext: { theme: "light" } });
const opened = [];
let opens = false;
bridge.onopenlink = async ({ url }) => (opens ? void opened.push(url) ?? {} : { isError: true });
const initialized = new Promise((done) => (bridge.oninitialized = done));
let size = {};
bridge.onsizechange = (changed) => (size = changed);
await bridge.connect(transport);
await initialized;

async function write(path, text) {
  const args = { path, content: text };
  await bridge.sendToolInput({ arguments: args });
  const result = await client.callTool({ name: "write_file", arguments: args });
  assert.ok(!result.isError, JSON.stringify(result));
  await bridge.sendToolResult(result);
}

const frame = page.frames().find((frame) => frame !== page.mainFrame());
const about = () => frame.innerText("#about");
for (const [path, text] of given.files) await write(path, text);
await until(async () => (await frame.locator("details").count()) === given.files.length, "the files");
assert.match(await about(), /^3 files, not in the workspace until you accept them: with `cofferdam console`, or with `cofferdam review interactive [0-9a-f-]+`\.$/);
const shown = await frame.innerText("#files");
assert.match(shown, /changed a\.txt \+1 −1/);
assert.equal(await frame.locator(".add", { hasText: /^\+two$/ }).count(), 1);
assert.equal(await frame.locator(".del", { hasText: /^-one$/ }).count(), 1);
assert.match(shown, /ATTENTION: a file that direnv/);
// Names and lines are text, and what is invisible is an escape.
assert.equal(await frame.locator("img, #files script").count(), 0);
assert.ok(shown.includes("<img src=x onerror=alert(1)>\\u{202e}.txt"), shown);
assert.ok(shown.includes("<script>alert(1)</script>\\u{202e}"), shown);
await until(() => size.height > 100, "its size");

// It can be read by everyone, also in the client's other theme.
for (const theme of ["light", "dark"]) {
  bridge.setHostContext({ theme });
  await until(() => frame.evaluate((theme) => document.documentElement.dataset.theme === theme, theme), theme);
  await frame.evaluate(axe);
  const { violations } = await frame.evaluate(() => globalThis.axe.run());
  assert.deepEqual(violations.map(({ id, nodes }) => `${id}: ${nodes[0].html}`), [], theme);
}

// What the app may ask of the server through the client is to read: no tool is offered to it.
const calls = (await client.listTools()).tools.filter((tool) => tool._meta?.ui?.visibility?.includes("app"));
assert.deepEqual(calls, []);

// By keys alone: a file is folded and unfolded, and its lines are reached.
await frame.focus("summary");
assert.equal(await frame.evaluate(() => document.querySelector("details").open), true);
await page.keyboard.press("Enter");
assert.equal(await frame.evaluate(() => document.querySelector("details").open), false);
await page.keyboard.press("Enter");
await page.keyboard.press("Tab");
assert.match(await frame.evaluate(() => document.activeElement.getAttribute("aria-label")), /^Changes of /);

// The user decides elsewhere: in the console, which the client opens if one is open.
const ask = async (want) => {
  process.stdout.write(`${JSON.stringify({ want })}\n`);
  return (await lines.next()).value;
};
assert.equal(await frame.isVisible("#decide"), false);
const link = await ask("console");
await frame.click("#refresh");
await until(() => frame.isVisible("#decide"), "the link to the console");
assert.ok((await about()).includes(`in the open console (${link}), or with`), await about());
await frame.press("#decide", "Enter");
await until(async () => (await about()).includes(`This client does not open the console. Open ${link} in`), "the refusal");
opens = true;
await frame.click("#refresh");
await until(() => frame.isVisible("#decide"), "the link to the console again");
await frame.press("#decide", "Enter");
await until(() => opened.length > 0, "the link is opened");
assert.deepEqual(opened, [link]);
await ask("accept");
await frame.click("#refresh");
await until(async () => (await about()) === "Nothing is held of this session.", "nothing");
assert.equal(await frame.locator("details").count(), 0);
assert.equal(await frame.isVisible("#decide"), false);

await bridge.teardownResource({});
assert.deepEqual(problems, []);
await browser.close();
await client.close();
process.exit(0);
