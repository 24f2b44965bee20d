// The page as a whole: header, views, start.
const VIEWS = {
  episodes: ["Episodes", null], groups: ["Groups", drawGroups], updates: ["Over updates", drawUpdates],
  discarded: ["Left out", drawDiscarded], run: ["Run", drawRun], compared: ["Compared", drawCompared],
};

function drawTop() {
  const { data } = page;
  const count = { discarded: discarded().length, episodes: data.episodes.length };
  const all = Object.values(data.tally).reduce(addCounts, NO_COUNT);
  document.getElementById("top").replaceChildren(
    el("div", { class: "bar" }, el("p", { class: "sentence" }, data.sentence),
      el("nav", { "aria-label": "Views" }, Object.entries(VIEWS).filter(([name]) => name !== "compared" || data.compared).map(([name, [words]]) =>
        button(count[name] === undefined ? words : `${words} ${count[name]}`, () => go({ view: name }), { "data-view": name, "aria-current": place.view === name ? "page" : null })),
      button("", switchTheme, { id: "theme" }), button("?", toggleHelp, { "aria-label": "Keys", id: "keys" }))),
    el("div", { class: "strip" }, el("h1", { title: data.title }, `\u200e${data.title}`),
      data.credit ? chip(creditTitle(data.credit)) : null, data.update === null ? null : chip(`update ${data.update}`), data.played ? chip(data.played) : null,
      data.header ? chip(`γ ${number(data.header.gamma)}${["state", "GRPO"].includes(data.credit) ? "" : ` λ ${data.header.lam === null ? "auto" : number(data.header.lam)}`}`) : null,
      chip(outcomeWords(all)), checkStrip()));
  setTheme(theme());
  document.documentElement.style.setProperty("--top", `${document.getElementById("top").offsetHeight}px`);
}

let drawnView = "";
let drawnEpisode = null;
function draw() {
  if (!(place.view in VIEWS) || (place.view === "compared" && !page.data.compared)) place.view = "episodes";
  const scroll = window.scrollY, listScroll = document.querySelector(".list")?.scrollTop ?? 0;
  updateVisible();
  drawTop();
  const main = document.getElementById("main");
  const drawView = VIEWS[place.view][1];
  const episode = drawView ? null : chosenEpisode();
  const open = new Set([...document.querySelectorAll("article details")].map((each, index) => each.open ? index : -1));
  main.replaceChildren(drawView ? drawView() : el("div", { class: "columns" }, el("aside", { "aria-label": "Episodes" }, browseButton(), filterBox(), episodeList()), drawEpisode(shown(episode))));
  showDetail(shown(episode));
  const list = document.querySelector(".list");
  if (list) list.scrollTop = listScroll;
  const same = drawnView === place.view && drawnEpisode === episode;
  if (same) document.querySelectorAll("article details").forEach((each, index) => { each.open = open.has(index); });
  window.scrollTo(0, same ? scroll : 0);
  drawnView = place.view;
  drawnEpisode = episode;
}

// Scroll the list alone: the page stays where it is.
function showInList() {
  const list = document.querySelector(".list"), chosen = list?.querySelector('[aria-current="true"]');
  if (chosen) list.scrollTop += chosen.getBoundingClientRect().top - list.getBoundingClientRect().top - list.clientHeight / 3;
}

// An episode that the address names is shown even if the filters leave it out.
function shown(episode) {
  return place.e === "" && !page.visible.length ? null : episode;
}

function drawArticle() {
  const episode = shown(chosenEpisode());
  document.querySelector("article").replaceWith(drawEpisode(episode));
  showDetail(episode);
}

async function start() {
  startTheme();
  await readData();
  document.title = `${page.data.title} – fctncalling`;
  if (page.data.compared) DEFAULTS.view = "compared";
  if (page.data.failures_first) ORDERS.file[0] = "failures first";
  readAddress();
  draw();
  showInList();
  if (place.t !== "") showToken(place.t);
  document.addEventListener("keydown", onKey);
  window.addEventListener("popstate", () => { readAddress(); draw(); });
  window.addEventListener("hashchange", () => { readAddress(); draw(); });
  document.getElementById("skip").addEventListener("click", (event) => { event.preventDefault(); document.getElementById("main").focus(); });
  document.documentElement.dataset.ready = "true";
}

start().catch((error) => {
  document.getElementById("main").replaceChildren(el("p", { class: "empty bad" }, `This page cannot be drawn: ${error.message}. A browser from 2024 or newer is needed.`));
  throw error;
});
