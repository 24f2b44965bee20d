// Token lanes: what the policy sampled in colour, what it was shown in grey and without number.
const LONG_CONTEXT = 24;

function pieceOf(row, at) {
  const text = page.data.pieces[row.ids[at]] ?? `⟨${row.ids[at]}⟩`;
  return row.spaceSet.has(at) ? ` ${text}` : text;
}

function visibleText(text) {
  return text.replace(/\n/g, "⏎\n").replace(/\t/g, "⇥");
}

function contextLane(row, first, end, label) {
  const lane = el("div", { class: "lane context", "aria-label": `${label}: ${end - first} tokens` });
  const write = () => {
    for (let at = lane.childElementCount + first; at < end; at++) lane.append(el("span", { class: "tok ctx" }, visibleText(pieceOf(row, at))));
  };
  if (end - first > LONG_CONTEXT) {
    return el("details", { class: "prompt", ontoggle: write }, el("summary", {}, `${label} · ${end - first} tokens`), lane);
  }
  write();
  return lane;
}

function actionLane(episode, tokens, measure = place.m) {
  const [, , kind] = MEASURES.find(([name]) => name === measure) || MEASURES[0];
  return el("div", { class: "lane action", role: "group", "aria-label": `action ${tokens[0].step + 1}` },
    tokens.map((token) => tokenBox(episode, token, measure, kind)));
}

function tokenBox(episode, token, measure, kind) {
  const value = valueOf(episode, token, measure);
  const share = strength(value, kind, episode.peak[measure] || 0);
  const clipped = episode.lanes.clipped[token.index];
  const classes = ["tok", "acted"];
  if (clipped > 0) classes.push("up");
  if (clipped < 0) classes.push("down");
  if (!episode.lanes.in_loss[token.index] && !(page.data.algorithm === "APPO" && episode.learned)) classes.push("out");
  if (String(token.index) === place.t) classes.push("chosen");
  if (findingsAt(episode, token.index).length) classes.push("found");
  const text = pieceOf(episode.lanes.rows[token.row], token.at);
  const shown = measure === "mask" ? maskReason(episode, token) : measure === "clipped" ? clipWords(value) : number(value);
  return el("span", {
    class: classes.join(" "), style: `--fill:${colour(share, kind)}`, role: "button", tabindex: "-1",
    "data-token": token.index, title: `${JSON.stringify(text)}  ${shown}`,
    "aria-label": `${text.trim() || "space"}, ${shown}`,
    onclick: () => chooseToken(episode, token.index),
  }, visibleText(text));
}

// Lanes of what the loss took and of all five algorithms under an action, each in its own scale.
function comparedLanes(episode, tokens) {
  const names = Object.keys(episode.lanes.credit);
  return el("div", { class: "compare" }, names.flatMap((name) => {
    const numbers = episode.lanes.credit[name];
    const own = name === page.data.credit ? " ●" : "";
    if (!numbers) return [el("span", {}, name + own), el("span", { class: "soft" }, missingCredit(episode, name))];
    const peak = largestSize(numbers);
    return [el("span", {}, name + own), el("div", { class: "lane" }, tokens.map((token) => {
      const share = strength(numbers[token.index], "diverging", peak);
      return el("span", {
        class: String(token.index) === place.t ? "tok chosen" : "tok", style: `--fill:${colour(share, "diverging")}`, "data-algorithm": name, "data-compared": token.index,
        title: `${name}: ${number(numbers[token.index], 6)}`,
        onclick: () => chooseToken(episode, token.index, name),
      }, visibleText(pieceOf(episode.lanes.rows[token.row], token.at)));
    }))];
  }));
}

function missingCredit(episode, name) {
  if (episode.learned === false) return "not learned from";
  const { unchecked } = page.data.checks.find((each) => each.check === "credit") ?? {};
  if (name === page.data.credit && unchecked) return `not recomputed: ${unchecked}`;
  return name === "GRPO" ? "no rewards stored" : "no critic";
}

function scaleLegend(episode) {
  const [, , kind] = MEASURES.find(([name]) => name === place.m) || MEASURES[0];
  if (kind === "mask") return el("span", { class: "scale" }, "coloured: trained · hatched: sampled, not trained · grey: context");
  if (kind === "clip") return el("span", { class: "scale" }, "blue: clipped above · orange: below · no colour: gradient flows");
  const peak = kind === "ratio" ? null : episode.peak[place.m];
  const steps = [-1, -0.5, 0, 0.5, 1].filter((each) => kind !== "sequential" || each >= 0);
  const gradient = steps.map((each) => colour(each, kind) || "var(--page)").join(", ");
  const ends = kind === "ratio" ? ["0.74", "1.35"] : kind === "sequential" ? ["0", `±${number(peak, 3)}`] : [number(-peak, 3), number(peak, 3)];
  return el("span", { class: "scale" }, ends[0], el("i", { style: `background: linear-gradient(to right, ${gradient})` }), ends[1]);
}
