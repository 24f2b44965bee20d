// Keys: episodes, tokens, measures, views.
const KEYS = {
  j: ["next episode", () => stepEpisode(1)], k: ["episode before", () => stepEpisode(-1)],
  n: ["next token", () => stepToken(1)], p: ["token before", () => stepToken(-1)],
  "]": ["next colouring", () => stepMeasure(1)], "[": ["colouring before", () => stepMeasure(-1)],
  c: ["compare algorithms", () => go({ compare: place.compare ? "" : "1" }, true)],
  "/": ["search", () => document.getElementById("search")?.focus()],
  t: ["light or dark", () => switchTheme()], "?": ["these keys", () => toggleHelp()],
};

function stepEpisode(by) {
  const at = page.visible.indexOf(chosenEpisode());
  const next = page.visible[Math.max(0, Math.min(page.visible.length - 1, at + by))];
  if (!next) return;
  go({ view: "episodes", e: next.id, t: "" });
  document.querySelector('.list [aria-current="true"]')?.scrollIntoView({ block: "nearest" });
}

function stepToken(by) {
  const episode = chosenEpisode();
  if (!episode?.tokens.length) return;
  const index = place.t === "" ? (by > 0 ? 0 : episode.tokens.length - 1) : Math.max(0, Math.min(episode.tokens.length - 1, Number(place.t) + by));
  go({ view: "episodes", e: episode.id, t: String(index) }, true);
  showToken(index);
}

function stepMeasure(by) {
  const names = measuresOf(chosenEpisode()).map(([name]) => name);
  if (names.length) go({ m: names[(names.indexOf(place.m) + by + names.length) % names.length] }, true);
}

function toggleHelp() {
  const dialog = document.getElementById("help");
  if (dialog.open) { dialog.close(); return; }
  dialog.replaceChildren(el("h2", {}, "Keys"), el("dl", {}, Object.entries(KEYS).map(([key, [words]]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, words)]),
    el("dt", {}, el("kbd", {}, "Esc")), el("dd", {}, "close the token")), button("Close", () => dialog.close()));
  dialog.showModal();
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && !document.getElementById("help").open) {
    if (document.activeElement?.matches("input")) document.activeElement.blur();
    else if (place.t !== "") go({ t: "" }, true);
    return;
  }
  if (event.target.matches("input, select, textarea")) return;
  const known = KEYS[event.key];
  if (!known) return;
  event.preventDefault();
  known[1]();
}
