// Makes the pictures in docs/console, and more: pages of the console, light and dark. Makes a workspace in a temporary
// directory, so nothing of this machine is in them.
//
//   node tests/browser/screenshots.mjs [COMMAND] [DIRECTORY]
//
// COMMAND is the built command (target/release/cofferdam), DIRECTORY where the pictures go
// (target/screenshots). `cargo xtask programs` installs the browser's driver into target/browser.

import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import { start, until } from "./page.mjs";

const project = resolve(dirname(fileURLToPath(import.meta.url)), "../..");
const command = resolve(process.argv[2] ?? join(project, "target/release/cofferdam"));
const directory = resolve(process.argv[3] ?? join(project, "target/screenshots"));
const top = mkdtempSync(join(tmpdir(), "cofferdam-"));
const workspace = join(top, "shop");
const env = { HOME: join(top, "home"), PATH: process.env.PATH };
mkdirSync(join(workspace, "src"), { recursive: true });
mkdirSync(join(top, "home/.config/cofferdam"), { recursive: true });
writeFileSync(join(top, "home/.config/cofferdam/cofferdam.toml"), "ask = ['shell.*']\n[grants.shell]\nfiles = 'write'\nprocess = ['bash']\n[roles.coder]\ntools = ['*']\n");

const price = (name, rate) => `"""Prices of the shop, in cents."""

import decimal

RATE = decimal.Decimal("${rate}")


def ${name}(net: int) -> int:
    """Adds the tax to a net price."""
    return int((net * (1 + RATE)).to_integral_value())


def total(items: list[int]) -> int:
    return sum(${name}(item) for item in items)


def discount(amount: int, percent: int) -> int:
    """Takes a percentage off."""
    return amount - amount * percent // 100
`;
const test = "from src.price import gross\n\n\ndef test_gross() -> None:\n    assert gross(100) == 119\n";
writeFileSync(join(workspace, "src/price.py"), price("with_tax", "0.16"));

function run(args, actions) {
  const input = JSON.stringify({ actions });
  execFileSync(command, ["-q", "-C", workspace, "run", ...args, "-"], { env, input, stdio: ["pipe", "ignore", "ignore"] });
}
const write = (path, content) => ({ type: "write_file", path, content });
const read = (path) => ({ type: "read_file", path });
for (let at = 0; at < 12; at += 1) {
  run([], [read("src/price.py"), write(`notes/${at}.md`, `# Note ${at}\n`)]);
}
run(["--hold", "--session", "tax-rate"], [
  write("src/price.py", price("gross", "0.19")),
  write("tests/test_price.py", test),
  write(".envrc", "export SHOP_ENV=test\n"),
]);
run(["--hold", "--session", "readme"], [write("README.md", "# Shop\n\nPrices are in cents.\n")]);

const console_ = spawn(command, ["-q", "-C", workspace, "console", "--no-open"], { env });
const url = await new Promise((resolve) => createInterface({ input: console_.stdout }).once("line", resolve));
const base = url.split("?")[0];
const server = spawn(command, ["-q", "-C", workspace, "serve"], { env });
const send = (message) => server.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const clientInfo = { name: "claude-code", version: "2.1.0" };
send({ id: 0, method: "initialize", params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo } });
send({ method: "notifications/initialized" });
const bash = { name: "shell__run_command", arguments: { command: "rm -rf build && make release" } };
send({ id: 1, method: "tools/call", params: bash });

const modules = join(project, "target/browser/package.json");
const browser = await start({ modules, chromium: process.env.CHROMIUM ?? "/usr/bin/chromium" });
const page = await browser.newPage({ viewport: { width: 1200, height: 800 } });
await page.goto(url);
await page.waitForURL(`${base}inbox`);
await until(async () => {
  await page.goto(`${base}inbox`);
  return (await page.locator(".asks").count()) > 0;
}, "the question");
const id = await page.locator("a", { hasText: "tax-rate" }).first().getAttribute("href");
mkdirSync(directory, { recursive: true });
const pages = { inbox: "inbox", proposal: id, history: "history", journal: "journal", figures: "figures", side: `${id}&show=side`, permissions: "permissions" };
for (const [name, address] of Object.entries(pages)) {
  await page.goto(`${base}${address}`);
  if (name === "proposal") {
    await page.waitForSelector("button.help", { state: "visible" });
    for (const key of ["j", "j", "a", "k", "k"]) await page.keyboard.press(key);
    await page.locator(".hunk").nth(1).evaluate((hunk) => hunk.closest(".file").scrollIntoView());
  }
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    await page.screenshot({ path: join(directory, `${name}-${colorScheme}.png`) });
  }
}
await page.setViewportSize({ width: 390, height: 800 });
await page.goto(`${base}${id}`);
await page.screenshot({ path: join(directory, "narrow-dark.png") });
await browser.close();
console_.kill();
server.kill();
rmSync(top, { recursive: true });
