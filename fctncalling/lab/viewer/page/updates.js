// The same task over updates: what was answered, and what changed since the answer before.
function drawUpdates() {
  const tasks = Object.keys(page.data.over_updates).sort((one, other) => seen(other) - seen(one));
  if (!tasks.length) {
    return el("div", { class: "sheet" }, el("p", { class: "empty" }, "There is one recording only: nothing to compare over updates."));
  }
  const own = chosenEpisode()?.task;
  const task = tasks.includes(place.task) ? place.task : tasks.includes(own) && seen(own) > 1 ? own : tasks[0];
  const answers = page.data.over_updates[task];
  return el("div", { class: "sheet" }, el("div", { class: "head" }, el("h2", {}, "One task over updates"),
    el("select", { "aria-label": "Task", id: "task", onchange: (event) => go({ task: event.target.value }, true) },
      tasks.map((each) => el("option", { value: each, selected: each === task }, `${each} (${seen(each)})`)))),
  answers.length < 2 ? el("p", { class: "soft" }, "This task was recorded once. Tasks of the evaluation are played at every one of them.") : null,
  answers.map((answer, index) => answerCard(answer, modelAt(answer.update, answers), answers.slice(0, index).reverse().find((each) => each.phase === answer.phase))));
}

function seen(task) {
  return page.data.over_updates[task].length;
}

// Whose answers these are; behind a supervised stage the base model was evaluated apart.
function modelAt(update, answers) {
  if (update > 0) return `Update ${update}`;
  return `${update < 0 || !answers.some((each) => each.update < 0) ? "Base" : "Supervised"} model, before all updates`;
}

function answerCard(answer, model, before) {
  return el("section", { class: "card", "data-update": answer.update },
    el("div", { class: "head" }, el("h3", {}, model), chip(answer.phase),
      chip(...outcomeOf({ ...answer, learned: null })),
      chip(`return ${number(answer.return)}`), answer.error_type ? chip(answer.error_type, "bad") : null, openLink(answer.id)),
    el("ol", { class: "calls" }, answer.texts.map((text, index) => el("li", {}, changed(before?.texts[index], text, Boolean(before))))));
}

// The part of a text that differs from the one before, between its equal beginning and end.
function changed(old, text, compares) {
  if (!compares || old === text) return text;
  if (old === undefined) return el("ins", {}, text);
  let start = 0, end = 0;
  while (start < Math.min(old.length, text.length) && old[start] === text[start]) start++;
  while (end < Math.min(old.length, text.length) - start && old[old.length - 1 - end] === text[text.length - 1 - end]) end++;
  return [text.slice(0, start), el("del", {}, old.slice(start, old.length - end)), el("ins", {}, text.slice(start, text.length - end)), text.slice(text.length - end)];
}
