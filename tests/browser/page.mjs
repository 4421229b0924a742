// What the tests in the browser and the screenshots share: Chromium, and the pages of the console.

import { createRequire } from "node:module";

/** Loads a package from the directory in which `cargo xtask programs` has installed it. */
export function load(modules, name) {
  return createRequire(modules)(name);
}

const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** Starts Chromium. */
export async function start({ modules, chromium }) {
  const { chromium: browser } = load(modules, "playwright-core");
  return browser.launch({ executablePath: chromium, args: FLAGS });
}

/** Waits until a condition holds. */
export async function until(condition, what) {
  const end = Date.now() + 30_000;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`waited in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
