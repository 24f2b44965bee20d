"use strict";
// What the page shows: its data, and the place in it that the address after # names.
const page = { data: null, byId: new Map(), visible: [] };
const DEFAULTS = {
  view: "episodes", e: "", t: "", m: "advantages", compare: "", q: "", category: "", outcome: "",
  error: "", turn: "", sort: "file", task: "", reward: "",
};
const place = { ...DEFAULTS };

async function readData() {
  const packed = atob(document.getElementById("data").textContent.trim());
  const bytes = new Uint8Array(packed.length); // a loop: Uint8Array.from takes a second for 5 MB
  for (let at = 0; at < packed.length; at++) bytes[at] = packed.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  page.data = JSON.parse(await new Response(stream).text());
  for (const episode of page.data.episodes) {
    prepare(episode);
    page.byId.set(episode.id, episode);
  }
}

// What an episode is drawn from, computed when it is first needed: a page opens at once.
function prepare(episode) {
  later(episode, "search", searchText);
  later(episode, "tokens", (each) => each.lanes ? actedTokens(each) : []);
  later(episode, "peak", largestNumbers);
  later(episode, "spread", creditSpread);
  for (const row of episode.lanes ? episode.lanes.rows : []) later(row, "spaceSet", (each) => new Set(each.spaces));
}

function later(owner, name, compute) {
  let value;
  Object.defineProperty(owner, name, { get: () => value ??= compute(owner) });
}

function searchText(episode) {
  const said = [...episode.opening, ...episode.questions.flat(), ...episode.steps.flatMap((step) => step.messages || [])];
  return [
    episode.task, episode.category, errorOf(episode) || "", episode.reason || "",
    ...said.map((message) => String(message.content || "")),
    ...episode.steps.flatMap((step) => [step.text, ...(step.results || [])]),
  ].join("\n").toLowerCase();
}

// The largest size of each measure, which gets the full colour.
function largestNumbers(episode) {
  const peak = {};
  for (const [name, numbers] of Object.entries(episode.lanes ? episode.lanes.numbers : {})) {
    peak[name] = largestSize(numbers);
  }
  return peak;
}

// How far credit differs among an episode's tokens; where all have one, as GRPO's, its size decides.
function creditSpread(episode) {
  const known = (episode.lanes?.numbers.advantages ?? []).filter((each) => each !== null);
  const [low, top] = rangeOf(known);
  return known.length ? top - low + 1e-6 * Math.max(top, -low) : 0;
}

function actedTokens(episode) {
  const ends = new Set(episode.lanes.ends);
  const tokens = [];
  let action = 0;
  episode.lanes.rows.forEach((row, number) => {
    for (let pair = 0; pair < row.acted.length; pair += 2) {
      for (let at = row.acted[pair]; at < row.acted[pair + 1]; at++) {
        const index = tokens.length;
        const first = index === 0 || tokens[index - 1].ends;
        const step = episode.lanes.steps[action] ?? action; // a team's rows are sorted by role
        tokens.push({ index, row: number, at, id: row.ids[at], action, step, ends: ends.has(index), first });
        if (ends.has(index)) action++;
      }
    }
  });
  return tokens;
}

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  for (const name of Object.keys(DEFAULTS)) place[name] = given.get(name) ?? DEFAULTS[name];
}

function address(changes) {
  const named = Object.entries({ ...place, ...changes });
  const changed = named.filter(([name, value]) => value !== DEFAULTS[name] && value !== "");
  return "#" + new URLSearchParams(changed.map(([name, value]) => [name, String(value)]));
}

// Go to another place: the address changes, and what it names is drawn.
function go(changes, replace = false) {
  const target = address(changes);
  if (replace) history.replaceState(null, "", target);
  else history.pushState(null, "", target);
  readAddress();
  draw();
}

// The episode that the address names, else the one whose credit differs most among its tokens.
function chosenEpisode() {
  const first = place.sort === "file" ? page.visible.reduce((best, each) => !best || each.spread > best.spread ? each : best, null) : page.visible[0];
  return page.byId.get(place.e) || first || page.data.episodes[0];
}
