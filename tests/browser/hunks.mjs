// Measures the page of a proposal with many hunks. Reads one JSON line: {modules, chromium, url, id}: where the
// packages are, the browser, the address of the console, and the proposal. Prints one JSON line for each time that the
// page was opened: the number of its hunks; when the answer of the server began and ended, and when the page was drawn,
// from the click on; and how long keys took. All times are in milliseconds.

import { createInterface } from "node:readline/promises";

import { start } from "./page.mjs";

const ROUNDS = 7;
const KEYS = ["j", "j", "x", "k", "a", "a", "r", "j", "x", "a", "k", "r", "j", "j", "a", "a", "a"];

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const given = JSON.parse((await lines.next()).value);
const browser = await start(given);
const page = await browser.newPage();
await page.goto(given.url);
await page.waitForURL("**/inbox");
const base = given.url.split("?")[0];
for (let round = 0; round < ROUNDS; round += 1) {
  await page.goto(`${base}inbox`);
  await page.goto(`${base}proposal?id=${given.id}`);
  const [begun, answered] = await page.evaluate(() => {
    const { responseStart, responseEnd } = performance.getEntriesByType("navigation")[0];
    return [responseStart, responseEnd];
  });
  // The first frame with the page's content.
  const drawn = await page.evaluate(async () => {
    const paint = () => performance.getEntriesByName("first-contentful-paint")[0];
    while (!paint()) await new Promise(requestAnimationFrame);
    return Math.max(paint().startTime, performance.getEntriesByType("navigation")[0].loadEventEnd);
  });
  const keys = [];
  for (const key of KEYS) {
    keys.push(await page.evaluate(async (key) => {
      const pressed = performance.now();
      const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true });
      document.activeElement.dispatchEvent(event);
      // Until the second frame, what the key has changed is drawn.
      await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
      return performance.now() - pressed;
    }, key));
  }
  const hunks = await page.locator(".hunk").count();
  process.stdout.write(`${JSON.stringify({ hunks, begun, answered, drawn, keys })}\n`);
}
await browser.close();
