// Value curve: V before every sampled token, targets, rewards where they landed, the bootstrap.
let WIDTH = 1000; // of the drawing, that of the screen: texts are not stretched
const HEIGHT = 170;
const EDGE = { left: 44, right: 16, top: 12, bottom: 22 };

function curveWidth() {
  const whole = document.getElementById("main").clientWidth;
  return Math.max(280, whole > 1000 ? whole - 370 : whole > 700 ? whole - 310 : whole - 45);
}

function valueCurve(episode) {
  WIDTH = curveWidth();
  const lanes = episode.lanes;
  if (!lanes || !lanes.numbers.rewards) return null;
  const values = lanes.numbers.values;
  const targets = lanes.numbers.returns || [];
  const every = [...(values || []), ...targets, ...lanes.numbers.rewards, bootstrapOf(episode), 0].filter((each) => each !== null && each !== undefined);
  const [low, top] = rangeOf(every), high = top - low < 1e-3 ? low + 1 : top;
  const count = episode.tokens.length;
  const x = (index) => EDGE.left + (WIDTH - EDGE.left - EDGE.right) * (index / Math.max(1, count));
  const y = (value) => HEIGHT - EDGE.bottom - (HEIGHT - EDGE.top - EDGE.bottom) * ((value - low) / (high - low));
  const drawing = svg("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "data-curve": "values",
    "aria-label": `values, targets and rewards of ${count} sampled tokens`,
    onclick: (event) => clickCurve(event, count),
  },
    gridLines(low, high, x, y, count), turnMarks(episode, x),
    svg("path", { d: steps(targets, x, y), fill: "none", stroke: "var(--seq)", "stroke-dasharray": "4 3", "stroke-width": 1.5, "vector-effect": "non-scaling-stroke" }),
    values ? svg("path", { d: steps(values, x, y), fill: "none", stroke: "var(--accent)", "stroke-width": 2, "vector-effect": "non-scaling-stroke" }) : null,
    rewardBars(lanes.numbers.rewards, x, y), bootstrapMark(episode, x, y), chosenMark(x, count));
  return el("figure", { class: "curve" }, drawing, curveCaption(episode, values));
}

function steps(numbers, x, y) {
  let drawn = "", open = false;
  numbers.forEach((value, index) => {
    if (value === null) { open = false; return; }
    drawn += `${open ? "L" : "M"}${x(index).toFixed(1)} ${y(value).toFixed(1)}L${x(index + 1).toFixed(1)} ${y(value).toFixed(1)}`;
    open = true;
  });
  return drawn;
}

function gridLines(low, high, x, y, count) {
  const apart = (value) => value === 0 || Math.abs(y(value) - y(0)) > 14; // labels would overlap
  const marks = low < 0 && high > 0 ? [low, 0, high].filter(apart) : [low, (low + high) / 2, high];
  return marks.map((value) => [
    svg("line", { x1: EDGE.left, x2: x(count), y1: y(value), y2: y(value), stroke: "var(--line)", "vector-effect": "non-scaling-stroke" }),
    svg("text", { x: EDGE.left - 6, y: y(value) + 4, "text-anchor": "end" }, number(value, 2)),
  ]);
}

function turnMarks(episode, x) {
  const marks = [];
  let turn = null;
  for (const token of episode.tokens) {
    const step = episode.steps[token.step];
    if (!token.first || !step || step.turn === turn) continue;
    turn = step.turn;
    marks.push(
      svg("line", { x1: x(token.index), x2: x(token.index), y1: EDGE.top, y2: HEIGHT - EDGE.bottom, stroke: "var(--soft)", "stroke-dasharray": "2 4", "vector-effect": "non-scaling-stroke" }),
      svg("text", { x: x(token.index) + 3, y: HEIGHT - 7 }, `turn ${turn + 1}`));
  }
  return marks;
}

function rewardBars(rewards, x, y) {
  return rewards.flatMap((reward, index) => reward ? [
    svg("line", { x1: x(index + 1), x2: x(index + 1), y1: y(0), y2: y(reward), stroke: reward > 0 ? "var(--good)" : "var(--bad)", "stroke-width": 4, "vector-effect": "non-scaling-stroke" }, svg("title", {}, `reward ${number(reward)}`)),
  ] : []);
}

function bootstrapMark(episode, x, y) {
  const value = bootstrapOf(episode);
  if (value === null || episode.terminated) return null;
  return svg("circle", { cx: x(episode.tokens.length), cy: y(value), r: 5, fill: "none", stroke: "var(--warn)", "stroke-width": 2 }, svg("title", {}, `bootstrap ${number(value)}`));
}

// The critic's value after the trajectory of a token: of the last one, or of a role's in a team.
function partOf(episode, index) {
  const { parts } = episode.lanes;
  return parts.find((each) => index < each.end) || parts[parts.length - 1];
}

function bootstrapOf(episode) {
  return partOf(episode, episode.tokens.length).bootstrap;
}

function chosenMark(x, count) {
  if (place.t === "" || Number(place.t) >= count) return null;
  const at = x(Number(place.t) + 0.5);
  return svg("line", { x1: at, x2: at, y1: 2, y2: HEIGHT - EDGE.bottom, stroke: "var(--text)", "stroke-width": 1.5, "vector-effect": "non-scaling-stroke" });
}

function clickCurve(event, count) {
  const box = event.currentTarget.getBoundingClientRect();
  const at = ((event.clientX - box.left) / box.width * WIDTH - EDGE.left) / (WIDTH - EDGE.left - EDGE.right);
  const index = Math.max(0, Math.min(count - 1, Math.floor(at * count)));
  go({ t: String(index) }, true);
  showToken(index);
}

function curveCaption(episode, values) {
  const key = (text, style) => el("span", { class: "key" }, el("i", { style }), text);
  return el("figcaption", {},
    values ? key("value V before the token", "border-color: var(--accent)") : "no critic: outcomes alone",
    key(values ? "target" : "outcome", "border-color: var(--seq); border-top-style: dashed"),
    key("reward", "border-color: var(--good)"),
    episode.terminated || bootstrapOf(episode) === null ? "" : `cut off: bootstrap ${number(bootstrapOf(episode))}`,
    el("span", {}, "click: that token"));
}
