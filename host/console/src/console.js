// Keys on the page of a proposal, and reloading what has changed. Everything works without this script.
"use strict";

const byId = (id) => document.getElementById(id);
const content = byId("live");

// For links to the console (open.js). A browser may be set to store nothing.
try {
  localStorage.setItem("base", new URL(".", location.href).pathname);
} catch {
  // Then links say to use this page.
}

// What has changed.

const reloads = document.body.dataset.reloads.split(" ").filter(Boolean);
const reports = document.body.dataset.reports.split(" ").filter(Boolean);
const REST_MS = 2000;
let reloaded = 0;
let timer = null;

function report(text) {
  const news = byId("news");
  const line = document.createElement("p");
  line.className = "news";
  const link = document.createElement("a");
  link.href = location.href;
  link.textContent = "Reload the page";
  line.append(text, " ", link);
  news.replaceChildren(line);
}

// While the user is about to press something, nothing moves.
function isInUse() {
  const active = document.activeElement;
  return (active && active !== document.body && content.contains(active) && active.closest("form, table, details"))
    || content.querySelector("form:hover, details[open], input[form]:checked");
}

async function reload() {
  timer = null;
  if (isInUse()) return report("Something has changed.");
  reloaded = Date.now();
  const response = await fetch(location.href, { headers: { "X-Part": "live" } }).catch(() => null);
  if (!response || !response.ok) return report("The page can't be reloaded.");
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const next = page.getElementById("live");
  if (!next || isInUse()) return report("Something has changed.");
  content.replaceChildren(...next.childNodes);
  byId("news").querySelector(".news")?.remove();
}

function soon() {
  timer ??= setTimeout(reload, Math.max(0, reloaded + REST_MS - Date.now()));
}

if (reloads.length || reports.length) {
  const events = new EventSource("events");
  events.addEventListener("changed", (event) => {
    const parts = event.data.split(" ");
    if (parts.some((part) => reloads.includes(part))) soon();
    if (parts.some((part) => reports.includes(part))) {
      report("The proposal or the workspace may have changed since this page was made.");
    }
  });
  // What changed before the connection stood.
  events.addEventListener("open", () => reloads.length && soon());
}

// Deciding about hunks.

const form = byId("decide");
const help = byId("help");
const hunks = form ? [...form.querySelectorAll(".hunk")] : [];
const places = new Map(hunks.map((hunk, at) => [hunk, at]));
const marks = new Map();
let chosen = 0;
let at = -1;

// The lines of hunks further down are a text until they are near, and once the browser has time: then a search
// of the page finds them.
const later = new Map();
for (const hunk of hunks) {
  const text = hunk.querySelector("noscript");
  if (text) later.set(hunk, text);
}

function unfold(hunk) {
  const text = later.get(hunk);
  if (!text) return;
  later.delete(hunk);
  const lines = document.createElement("template");
  lines.innerHTML = text.textContent;
  text.replaceWith(lines.content);
}

if (later.size) {
  const near = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      near.unobserve(target);
      unfold(target);
    }
  }, { rootMargin: "1500px" });
  for (const hunk of later.keys()) near.observe(hunk);
  const soonest = window.requestIdleCallback ?? ((work) => setTimeout(work, 50, { timeRemaining: () => 0 }));
  const rest = (time) => {
    do {
      const [hunk] = later.keys();
      if (!hunk) return;
      unfold(hunk);
    } while (time.timeRemaining() > 4);
    soonest(rest);
  };
  addEventListener("load", () => soonest(rest));
}

function current(index) {
  hunks[at]?.classList.remove("current");
  at = Math.min(Math.max(index, 0), hunks.length - 1);
  hunks[at].classList.add("current");
}

// Hunks of files that are folded are skipped, unless there is no other one on the way.
function select(index) {
  if (!hunks.length) return;
  const step = index < at ? -1 : 1;
  let next = Math.min(Math.max(index, 0), hunks.length - 1);
  while (next > 0 && next < hunks.length - 1 && isFolded(hunks[next])) next += step;
  current(isFolded(hunks[next]) ? at : next);
  unfold(hunks[at]);
  hunks[at].focus({ preventScroll: true });
  hunks[at].scrollIntoView({ block: "nearest" });
}

const isFolded = (hunk) => !hunk.closest("details").open;

// Marks the file of a button as reviewed, or not; what is marked to be decided stays.
async function review(button) {
  const value = (name) => [name, form.elements[name].value];
  const body = new URLSearchParams([...["csrf", "id", "view"].map(value), [button.name, button.value]]);
  const request = { method: "POST", body, redirect: "manual" };
  const response = await fetch(button.formAction, request).catch(() => null);
  // The whole page says why.
  if (response?.type !== "opaqueredirect") return form.requestSubmit(button);
  const isReviewed = button.name === "reviewed";
  const label = button.dataset.other;
  button.dataset.other = button.textContent;
  button.textContent = label;
  button.name = isReviewed ? "unreviewed" : "reviewed";
  const file = button.closest(".file");
  file.querySelector("details").open = !isReviewed;
  const first = file.querySelector(".hunk");
  const link = document.querySelector(`.files a[href="#${first.id}"]`);
  if (link) link.closest("li").querySelector(".reviewed").hidden = !isReviewed;
  const progress = byId("progress");
  progress.dataset.reviewed = Number(progress.dataset.reviewed) + (isReviewed ? 1 : -1);
  progress.textContent = `${progress.dataset.reviewed} of ${progress.dataset.files} files reviewed`;
  const place = places.get(first);
  select(isReviewed ? place + file.querySelectorAll(".hunk").length : place);
}

function mark(hunk, verdict) {
  if (verdict === "accept" && "collides" in hunk.dataset) return;
  const before = marks.get(hunk);
  const next = before === verdict ? null : verdict;
  if (before) hunk.classList.remove(before);
  if (next) {
    hunk.classList.add(next);
    marks.set(hunk, next);
  } else {
    marks.delete(hunk);
  }
  hunk.querySelector(".mark").textContent =
    next === "accept" ? "to be accepted" : next === "reject" ? "to be rejected" : "";
}

function choose(hunk, isChosen) {
  const box = hunk.querySelector("input[type=checkbox]");
  if (box.checked === isChosen) return;
  box.checked = isChosen;
  chosen += isChosen ? 1 : -1;
}

function markAll(verdict) {
  const boxes = chosen ? form.querySelectorAll("input[type=checkbox]:checked") : [];
  const those = [...boxes].map((box) => box.closest(".hunk"));
  if (those.length) {
    for (const hunk of those) {
      if (marks.get(hunk) !== verdict) mark(hunk, verdict);
      choose(hunk, false);
    }
  } else if (at >= 0) {
    mark(hunks[at], verdict);
    if (marks.has(hunks[at])) select(at + 1);
  }
  count();
}

function count() {
  const counts = form.querySelector(".counts");
  const accept = [...marks.values()].filter((verdict) => verdict === "accept").length;
  const parts = [hunks.length === 1 ? "1 hunk" : `${hunks.length} hunks`];
  if (chosen) parts.push(`${chosen} chosen`);
  if (marks.size) parts.push(`${accept} to accept, ${marks.size - accept} to reject (Enter)`);
  counts.textContent = parts.join(" · ");
}

function submit() {
  if (!marks.size) {
    byId("news").textContent = "Nothing is marked: a accepts and r rejects a hunk.";
    return;
  }
  for (const [hunk, verdict] of marks) {
    const field = document.createElement("input");
    field.type = "hidden";
    field.name = verdict;
    field.value = hunk.dataset.hunk;
    form.append(field);
  }
  const button = byId("submit-marked");
  button.disabled = false;
  form.requestSubmit(button);
}

const keys = {
  j: () => select(at + 1),
  k: () => select(at - 1),
  a: () => markAll("accept"),
  r: () => markAll("reject"),
  x: () => at >= 0 && (choose(hunks[at], !hunks[at].querySelector("input").checked), count()),
  e: () => hunks[at]?.querySelector("a.edit")?.click(),
  v: () => hunks[at]?.closest(".file").querySelector("button.review").click(),
  Enter: submit,
  "?": () => help.showModal(),
};

function onKey(event) {
  const isTyping = event.target.closest("textarea, select, input:not([type=checkbox])");
  const isPressing = event.key === "Enter" && event.target.closest("a, button, summary");
  if (isTyping || isPressing || help.open || event.ctrlKey || event.metaKey || event.altKey) return;
  if (!Object.hasOwn(keys, event.key)) return;
  event.preventDefault();
  keys[event.key]();
}

if (form) {
  form.addEventListener("change", (event) => {
    if (event.target.name !== "hunk") return;
    chosen += event.target.checked ? 1 : -1;
    count();
  });
  form.addEventListener("focusin", (event) => {
    const hunk = event.target.closest(".hunk");
    if (hunk) current(places.get(hunk));
  });
  form.addEventListener("click", (event) => {
    if (!event.target.matches("button.review")) return;
    event.preventDefault();
    review(event.target);
  });
  document.addEventListener("keydown", onKey);
  const button = document.querySelector("button.help");
  button.hidden = false;
  button.addEventListener("click", () => help.showModal());
  // A browser may restore what was chosen before.
  chosen = form.querySelectorAll("input[type=checkbox]:checked").length;
}
