// Several runs side by side; the first one, the baseline, is what the others are compared with.
function drawCompared() {
  const { titles, letters, files, tallies, changes, settings, metrics, curves } = page.data.compared;
  const trained = CURVES.slice(4, 7).filter((name) => metrics.some((each) => Number.isFinite(each[name])));
  return el("div", { class: "sheet" }, el("h2", {}, `${titles.length} runs`),
    el("section", { class: "card" }, table(["", "run", "episodes of", "success", "strictly", ...trained], titles.map((title, index) => {
      const all = Object.values(tallies[index]).reduce(addCounts, NO_COUNT);
      return [letters[index], index ? path(title) : [path(title), " ", chip("baseline")], path(files[index]), rateCell(all, "success", NO_COUNT), rateCell(all, "strict", NO_COUNT), ...trained.map((name) => number(metrics[index][name]))];
    }))),
    changes.every((each) => each.is_same_set) ? null : el("p", { class: "soft" }, "The runs have different tasks: their rates are each of its own, gained and lost tasks those that both have."),
    comparedCurves(curves, letters), comparedCategories(tallies, letters), comparedTasks(changes, letters),
    settings.length ? el("section", { class: "card" }, el("h2", {}, "Settings that differ"),
      table(["setting", ...letters], settings.map(([name, ...values]) => [el("code", {}, name), ...values.map((each) => el("code", {}, each === null ? "–" : String(each)))]))) : null);
}

const NO_COUNT = { valid: 0, judged: 0, success: 0, strict: 0, judged_strictly: 0, return: 0 };

function addCounts(sum, each) {
  const counted = { ...each, valid: each.episodes - each.invalid };
  return Object.fromEntries(Object.keys(NO_COUNT).map((name) => [name, sum[name] + counted[name]]));
}

// A path that wraps behind its marks, not in mid-word.
function path(text) {
  return el("span", { class: "path" }, text.split(/(?<=[/_])/).flatMap((part) => [part, el("wbr")]));
}

// A rate, and how it differs from the first run's.
function rateCell(count, name, first) {
  const of = name === "success" ? "judged" : "valid";
  if (!count[of] || (name === "strict" && !count.judged_strictly)) return "–";
  const points = first[of] ? 100 * (count[name] / count[of] - first[name] / first[of]) : 0;
  return el("span", {}, bar(count[name], count[of]), " ", Math.abs(points) < 0.05 ? "" : el("span", { class: points > 0 ? "good" : "bad" }, `${points > 0 ? "+" : "−"}${Math.abs(points).toFixed(1)}`));
}

const runColour = (hue) => `light-dark(hsl(${hue} 70% 42%), hsl(${hue} 75% 68%))`;

// Success of all runs over their updates, on one scale.
function comparedCurves(curves, letters) {
  const drawn = curves.map((points, index) => ({ points, letter: letters[index], colour: runColour((215 + 137 * index) % 360) })).filter(({ points }) => points.length > 1);
  if (!drawn.length) return null;
  WIDTH = Math.max(280, Math.min(1200, document.getElementById("main").clientWidth) - 96);
  const last = drawn.reduce((most, { points }) => Math.max(most, points[points.length - 1][0]), 1);
  const x = (update) => EDGE.left + (WIDTH - EDGE.left - EDGE.right) * (update / last);
  const y = (share) => HEIGHT - EDGE.bottom - (HEIGHT - EDGE.top - EDGE.bottom) * share;
  const lines = drawn.map(({ points, letter, colour }) => svg("polyline", { points: points.map(([update, share]) => `${x(update).toFixed(1)},${y(share).toFixed(1)}`).join(" "), "data-run": letter, fill: "none", stroke: colour, "stroke-width": 2, "vector-effect": "non-scaling-stroke" }));
  return el("section", { class: "card", id: "compared-curves" }, el("h2", {}, "Success over updates"),
    el("figure", { class: "curve" },
      svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", style: "cursor: default", "aria-label": `share of each update's episodes that succeed, of ${drawn.length} runs` },
        gridLines(0, 1, x, y, last), lines, svg("text", { x: x(last), y: HEIGHT - 7, "text-anchor": "end" }, `update ${last}`)),
      el("figcaption", {}, drawn.map(({ letter, colour }) => el("span", { class: "key" }, el("i", { style: `border-color: ${colour}` }), letter)), el("span", {}, "share of each update's episodes that succeed"))));
}

function comparedCategories(tallies, letters) {
  const categories = distinct(tallies.flatMap(Object.keys));
  const counts = tallies.map((tally) => (category) => tally[category] ? addCounts(NO_COUNT, tally[category]) : NO_COUNT);
  return el("section", { class: "card", id: "compared-categories" }, el("h2", {}, "Success by category"),
    table(["category", ...letters], categories.map((category) => [category, ...counts.map((of) => rateCell(of(category), "success", counts[0](category)))])));
}

// A task that opens to the answers of two runs, each with its verdict.
function bothAnswers(name, answers, letters) {
  return el("details", { class: "both" }, el("summary", {}, name), answers.map(({ text, verdict }, at) =>
    [el("p", { class: "soft" }, `${letters[at]}: ${verdict}`), el("pre", { class: "result" }, text || "(empty)")]));
}

function comparedTasks(changes, letters) {
  const models = page.data.compared.of_models;
  const words = (letter) => models ? [`only ${letter} right`, `only ${letters[0]} right`] : ["gained", "lost"];
  const split = changes.flatMap((each, index) => Object.entries(each.by_category).map(([name, counts]) => [letters[index + 1], name, ...counts.map(String)]));
  const list = (words, count, names, answers, letter) => count ? el("details", {}, el("summary", {}, `${count} ${words}`),
    names.map((name, at) => bothAnswers(name, answers[at], [letters[0], letter])),
    names.length < count ? el("p", { class: "soft" }, `${count - names.length} more tasks are not on this page`) : null) : el("span", {}, `0 ${words}`);
  return el("section", { class: "card", id: "compared-tasks" }, el("h2", {}, `Tasks against run ${letters[0]}, the baseline`),
    table(["run", "tasks of both", ...words("it")], changes.map((each, index) => {
      const [gained, lost] = words(letters[index + 1]);
      return [letters[index + 1], String(each.both), list(gained, each.num_gained, each.gained, each.gained_answers, letters[index + 1]), list(lost, each.num_lost, each.lost, each.lost_answers, letters[index + 1])];
    })),
    table(["run", "category", ...words("it")], split));
}
