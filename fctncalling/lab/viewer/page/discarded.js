// Episodes that nothing was learned from, each with the reason.
function discarded() {
  return page.data.members.filter((each) => each.invalid || each.learned === false);
}

function drawDiscarded() {
  const members = discarded();
  const reasons = new Map();
  for (const member of members) reasons.set(reasonOf(member), (reasons.get(reasonOf(member)) || 0) + 1);
  if (!members.length) return el("div", { class: "sheet" }, el("p", { class: "empty" }, "No episode was left out: all were valid, and all were learned from."));
  return el("div", { class: "sheet" }, el("h2", {}, `${members.length} of ${page.data.members.length} episodes left out`),
    el("ul", { class: "facts" }, [...reasons].map(([reason, count]) => chip(`${count} × ${reason}`, "warn"))),
    table(["episode", "task", "category", "reason"], members.map((each) => [openLink(each.id), each.task, each.category, reasonOf(each)])));
}

function reasonOf(member) {
  return member.reason || (member.invalid ? "infrastructure failed" : "left out");
}
