// Group view: episodes of one task and seed as a tree that splits where their answers first differ.
function drawGroups() {
  const groups = new Map();
  for (const member of page.data.members) {
    if (!groups.has(member.group)) groups.set(member.group, []);
    groups.get(member.group).push(member);
  }
  const several = [...groups.values()].filter((members) => members.length > 1);
  if (!several.length) {
    return el("div", { class: "sheet" }, el("p", { class: "empty" }, "Every task was played once: there is no group to compare. (--group_size N plays each task N times.)"));
  }
  several.sort((one, other) => spreadOf(other) - spreadOf(one));
  return el("div", { class: "sheet" }, el("h2", {}, `${several.length} groups`),
    el("p", { class: "soft" }, "Episodes of one task and seed. A branch is an answer; the bar is its share of success. Groups that differ most come first."),
    several.map((members) => el("section", { class: "card", "data-group": members[0].group },
      el("div", { class: "head" }, el("h3", {}, members[0].task), chip(members[0].category),
        chip(shareOf(members).words),
        spreadOf(members) ? null : chip("no signal: all returns equal", "warn")),
      el("ul", { class: "tree" }, branches(members, 0)))));
}

function spreadOf(members) {
  const returns = members.map((each) => each.return ?? 0);
  const mean = returns.reduce((sum, each) => sum + each, 0) / returns.length;
  return returns.reduce((sum, each) => sum + (each - mean) ** 2, 0) / returns.length;
}

function branches(members, depth) {
  const next = new Map();
  for (const member of members) {
    const text = member.texts[depth] ?? null;
    if (!next.has(text)) next.set(text, []);
    next.get(text).push(member);
  }
  return [...next].sort((one, other) => other[1].length - one[1].length)
    .flatMap(([text, same]) => text === null ? leaves(same) : [branch(text, same, depth)]);
}

// A branch goes on in one line as long as all of its episodes answer alike.
function branch(text, members, depth) {
  const shared = [text];
  let at = depth + 1;
  while (members.every((each) => at < each.texts.length && each.texts[at] === members[0].texts[at])) shared.push(members[0].texts[at++]);
  const rest = members.some((each) => each.texts.length > at) ? el("ul", {}, branches(members, at)) : el("ul", {}, leaves(members));
  return el("li", {}, el("div", { class: "node" }, bar(shareOf(members).rate, 1, shareOf(members).words),
    el("code", { title: shared.join("\n") }, shared.join(" → "))), rest);
}

function leaves(members) {
  return members.map((member) => el("li", {}, el("div", { class: "node" },
    chip(...outcomeOf(member)),
    el("span", {}, `return ${number(member.return)}`), el("span", { class: "soft" }, member.error_type || ""), openLink(member.id))));
}

// Share of success; of members that nobody judged the mean reward.
function shareOf(members) {
  const judged = members.filter((each) => each.success !== null);
  const right = judged.filter((each) => each.success).length;
  if (judged.length) return { rate: right / judged.length, words: `${right} of ${judged.length} succeed` };
  const mean = members.reduce((sum, each) => sum + (each.return ?? 0), 0) / members.length;
  return { rate: Math.max(0, Math.min(1, mean)), words: `mean reward ${number(mean)} of ${members.length}` };
}

function openLink(id) {
  if (!page.byId.has(id)) return el("span", { class: "soft" }, id);
  return el("a", { href: address({ view: "episodes", e: id, t: "", q: "", category: "", outcome: "", error: "", turn: "", reward: "" }), "data-open": id }, id);
}
