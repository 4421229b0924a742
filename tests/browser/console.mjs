// Drives every function of the console in Chromium. Reads one JSON line: {modules, chromium, url, large,
// small, hostile, commit}: where the packages are, the browser, the address of the console, proposals (one of
// 1,000 hunks, one of three files, one with hostile names and contents), and a commit. How long a page takes is
// measured by hunks.mjs.

import assert from "node:assert/strict";
import { createInterface } from "node:readline/promises";

import { load, start, until } from "./page.mjs";

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const given = JSON.parse((await lines.next()).value);
const { source } = load(given.modules, "axe-core");
const base = given.url.split("?")[0];
const browser = await start(given);
const elsewhere = [];
const problems = [];

async function open(options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.on("request", (request) => {
    if (!request.url().startsWith(base)) elsewhere.push(request.url());
  });
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error") problems.push(`${message.text()} ${message.location().url}`);
  });
  page.on("dialog", (dialog) => {
    problems.push(`a dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  return page;
}

const page = await open({ colorScheme: "light" });
await page.goto(given.url);
await page.waitForURL(`${base}inbox`);
const text = () => page.innerText("main");

// axe is evaluated by the debugger, which the page's policy does not restrict.
async function check(name) {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    await page.evaluate(source);
    const { violations } = await page.evaluate(() => globalThis.axe.run());
    const found = violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => node.html).join(" ")}`);
    assert.deepEqual(found, [], `${name}, ${colorScheme}`);
  }
  await page.emulateMedia({ colorScheme: "light" });
}

// The address is of no use to another browser.
const stranger = await (await browser.newContext()).newPage();
assert.equal((await stranger.goto(given.url)).status(), 403);
assert.equal((await stranger.goto(`${base}inbox`)).status(), 403);

// A link, which has no secret, leads to the console in the browser that has opened it, also from another page; not in
// another browser, nor to where something else has set the path.
const { origin } = new URL(base);
const linked = await page.context().newPage();
const follow = async () => {
  await linked.setContent(`<a href="${origin}/open?proposal=${given.small}">Open</a>`);
  await linked.click("a");
};
await follow();
await linked.waitForURL(`${base}proposal?id=${given.small}`);
for (const path of ["//evil.example/", "/inbox", `/${"0".repeat(64)}/`]) {
  await linked.goto(`${origin}/open`);
  await linked.waitForURL(`${base}inbox`);
  await linked.evaluate((path) => localStorage.setItem("base", path), path);
  await linked.goto(`${origin}/open?proposal=${given.small}`);
  await linked.waitForLoadState("networkidle");
  assert.equal(linked.url(), `${origin}/open?proposal=${given.small}`, path);
  assert.match(await linked.innerText("main"), /This browser has not opened the console/);
  await linked.goto(`${base}inbox`);
}
await linked.close();
await stranger.goto(`${origin}/open?proposal=${given.small}`);
await stranger.waitForLoadState("networkidle");
assert.match(await stranger.innerText("main"), /This browser has not opened the console/);

// 1,000 hunks: keys mark those that they are pressed on.
const proposal = (id) => `${base}proposal?id=${id}`;
await page.goto(proposal(given.large));
assert.equal(await page.locator(".hunk").count(), 1000);
// The lines of all of them are shown in the end.
await until(async () => (await page.locator(".hunk table").count()) === 1000, "the lines of all hunks");
assert.equal(await page.locator(".hunk noscript").count(), 0);
assert.match(await page.locator(".hunk").last().textContent(), /old 7992[^]*new 7992/);
for (const key of ["j", "j", "x", "k", "a", "a", "r", "j", "x", "a", "k", "r", "j", "j", "a", "a", "a"]) {
  await page.keyboard.press(key);
}
const marked = await page.locator(".hunk.accept, .hunk.reject").count();
assert.ok(marked > 3, `${marked} are marked`);
await page.reload();

// Keys: one is accepted, one rejected, one edited, and one stays.
await page.goto(proposal(given.small));
await check("proposal");
await page.goto(`${proposal(given.small)}&show=side`);
assert.equal(await page.locator("table.side").count(), 4);
await check("side by side");
await page.click("text=Inline");
await page.waitForSelector("table.inline");
// The script has begun.
const ready = () => page.waitForSelector("button.help", { state: "visible" });
await ready();
await page.keyboard.press("?");
assert.ok(await page.locator("dialog#help").isVisible());
await check("keys");
await page.keyboard.press("Escape");
await page.keyboard.press("j");
await page.keyboard.press("a");
await page.keyboard.press("r");

// The file is reviewed: it is folded, and what is marked stays.
const progress = () => page.innerText("#progress");
assert.equal(await progress(), "0 of 1 files reviewed");
await page.keyboard.press("v");
await until(async () => (await progress()) === "1 of 1 files reviewed", "the mark");
assert.equal(await page.locator(".hunk:visible").count(), 0);
assert.ok(await page.locator("nav .tag.reviewed").isVisible());
await check("reviewed");
const again = await page.context().newPage();
await again.goto(proposal(given.small));
assert.equal(await again.innerText("#progress"), "1 of 1 files reviewed");
await again.close();
await page.keyboard.press("v");
await until(async () => (await progress()) === "0 of 1 files reviewed", "no mark");
assert.equal(await page.locator(".hunk:visible").count(), 4);
assert.equal(await page.locator(".hunk.reject").count(), 1);
await page.fill("#comment", "not <b>this</b>");
await page.locator(".hunk").nth(2).focus();
await page.keyboard.press("Enter");
await page.waitForSelector(".said");
assert.match(await page.innerText(".said"), /1 hunk accepted; 1 hunk rejected/);
assert.equal(await page.locator(".hunk").count(), 2);
await ready();
await page.keyboard.press("j");
await page.keyboard.press("e");
await page.waitForSelector("textarea#text");
await check("edit");
await page.fill("textarea#text", (await page.inputValue("textarea#text")).replace("+third", "+by hand"));
await page.click("text=Accept as edited");
await page.waitForSelector(".said");
assert.equal(await page.locator(".hunk").count(), 1);
await ready();

// Another one has decided meanwhile.
const second = await page.context().newPage();
await second.goto(proposal(given.small));
await second.click("text=Reject all");
await second.waitForURL(`${base}inbox`);
await until(async () => (await page.innerText("#news")).includes("may have changed"), "the report of a change");
await page.click("text=Accept all");
assert.match(await text(), /no open proposal/);
// Chromium logs it, since the status says so too.
assert.match(problems.pop(), /404/);
await second.close();

// The inbox is reloaded by itself.
await page.goto(`${base}inbox`);
await page.mouse.move(0, 0);
await check("inbox");
const held = await page.locator(".card").count();
process.stdout.write(`${JSON.stringify({ want: "hold" })}\n`);
await until(async () => (await page.locator(".card").count()) > held, "a new proposal in the inbox");

// Several proposals at once. What is chosen stays chosen while others come.
await page.getByLabel("Choose the changes of the session later").check();
await page.fill("#bulk #comment", "not <b>now</b>");
await check("inbox with a choice");
await page.click("text=Reject all of the chosen ones");
await page.waitForSelector(".said");
assert.match(await text(), /The session later: 1 hunk rejected/);
assert.equal(await page.locator(".card").count(), held);

// A question of a call.
process.stdout.write(`${JSON.stringify({ want: "question" })}\n`);
await page.waitForSelector(".asks", { timeout: 30_000 });
await check("question");
await page.fill(".asks input[name=reason]", "no, <i>thanks</i>");
// Enter in the field is a no.
await page.press(".asks input[name=reason]", "Enter");
await page.waitForSelector(".said");
assert.match(await text(), /The call has your answer/);

// The other answers.
for (const answer of ["Yes, this call", "Yes, for this time", "Yes, and later calls of this tool in this session"]) {
  process.stdout.write(`${JSON.stringify({ want: "question" })}\n`);
  await page.waitForSelector(".asks", { timeout: 30_000 });
  if (answer === "Yes, for this time") await page.click(".asks summary");
  await page.getByRole("button", { name: answer, exact: true }).click();
  await until(async () => (await page.locator(".asks").count()) === 0, answer);
}
await until(async () => {
  await page.goto(`${base}calls`);
  return /No call is under way/.test(await text());
}, "the end of the calls");

// A call under way appears by itself, and is cancelled.
await page.mouse.move(0, 0);
process.stdout.write(`${JSON.stringify({ want: "call" })}\n`);
await until(async () => /conformance\.wait/.test(await text()) && /waiting/.test(await text()), "the call");
await check("calls");
await page.click("text=Cancel >> nth=-1");
await page.waitForSelector(".said");
await page.mouse.move(0, 0);
await until(async () => /No call is under way/.test(await text()), "the end of the call");

// Hostile names and contents.
await page.goto(proposal(given.hostile));
await check("hostile");
assert.ok((await text()).includes("\\u{202e}"));
assert.ok((await text()).includes("ATTENTION"));
assert.equal(await page.locator("main img, main script, main iframe, main [onerror]").count(), 0);
await page.click("text=Accept file >> nth=0");
await page.waitForSelector(".said");
assert.equal(await page.locator(".hunk").count(), 1);
await page.click("text=Accept all");
await page.waitForURL(`${base}inbox`);

// History, with an undo.
await page.goto(`${base}history`);
await check("history");
await page.goto(`${base}commit?id=${given.commit}`);
await check("commit");
await page.click("text=Undo this commit");
await page.waitForSelector(".said");
assert.match(await text(), /is undone/);
await page.getByRole("button", { name: /^Redo the commit/ }).first().click();
await page.waitForSelector(".said");
assert.match(await text(), /is made again/);
await page.getByLabel("is the first one").last().check();
await page.getByLabel("is the last one").first().check();
await page.click("text=Show what they changed together");
await page.waitForURL(/range\?/);
assert.match(await text(), /What several commits changed/);
assert.match(await text(), /third 5/);
await check("range");

// The journal.
await page.click("nav >> text=Journal");
await check("journal");
await page.fill("#q", "write_file cli");
await page.press("#q", "Enter");
await page.waitForURL(/q=write_file/);
await page.locator("tbody th a", { hasText: "files.write_file" }).first().click();
await page.waitForURL(/call\?id=/);
await check("call");
await page.click("nav >> text=Permissions");
await page.locator("details summary").first().click();
await check("permissions");
await page.click("nav >> text=Figures");
assert.ok((await page.locator("svg").count()) >= 3);
await check("figures");

// A narrow screen, and no script.
const narrow = await open({ viewport: { width: 380, height: 700 }, javaScriptEnabled: false });
await narrow.context().addCookies(await page.context().cookies());
for (const name of ["inbox", "calls", "history", "journal", "permissions", "figures", `proposal?id=${given.large}`]) {
  const response = await narrow.goto(`${base}${name}`);
  assert.equal(response.status(), 200, name);
}
assert.equal(await narrow.locator(".hunk table").count(), 1000);
await narrow.locator("button[name=reject-one]").first().click();
await narrow.waitForSelector(".said");
assert.match(await narrow.innerText(".said"), /1 hunk rejected/);

// One hunk, those that are chosen, and a file.
await page.goto(proposal(given.large));
let left = 999;
const decides = async (label, count, choose) => {
  assert.equal(await page.locator(".hunk").count(), left);
  await ready();
  for (let at = 0; at < choose; at += 1) await page.locator("input[name=hunk]").nth(at).check();
  await page.getByRole("button", { name: label, exact: true }).click();
  left -= count;
  await until(async () => (await page.locator(".hunk").count()) === left, label);
};
await decides("Accept hunk 1", 1, 0);
await decides("Accept chosen", 2, 2);
await decides("Reject chosen", 1, 1);
await page.getByRole("button", { name: "Reject file" }).click();
await page.waitForURL(`${base}inbox`);

assert.deepEqual(elsewhere, []);
assert.deepEqual(problems, []);
await browser.close();
process.exit(0);
