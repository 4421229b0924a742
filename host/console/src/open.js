// Leads from a link to the console that this browser has opened. The link has no secret: which path the console is
// below, only the browser knows, by the storage of this origin.
"use strict";

(async () => {
  const base = localStorage.getItem("base") ?? "";
  if (!/^\/[0-9a-f]{64}\/$/.test(base)) return;
  const proposal = new URLSearchParams(location.search).get("proposal");
  const page = proposal ? `proposal?id=${encodeURIComponent(proposal)}` : "inbox";
  // A console that has ended had another path.
  const { ok } = await fetch(base);
  if (ok) location.replace(base + page);
})().catch(() => {});
