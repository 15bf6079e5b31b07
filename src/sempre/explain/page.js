"use strict";
(() => {
  const told = JSON.parse(document.getElementById("document").textContent);
  let doc = told;
  const page = document.getElementById("page");
  const MOST = 400; // folds that one click opens

  function make(tag, look, text) {
    const made = document.createElement(tag);
    if (look) made.className = look;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function fact(at, note) {
    const node = doc.nodes[at];
    if (node.kind !== "rule") {
      const leaf = make("div", "node leaf " + node.kind);
      leaf.append(make("span", "fact", node.text));
      if (note) leaf.append(make("span", "quiet", "  " + note));
      return leaf;
    }
    const own = doc;
    const fold = make("details", "node derived");
    fold.dataset.node = at;
    const title = make("summary");
    title.append(make("span", "fact", node.text));
    fold.append(title);
    fold.addEventListener("toggle", () => { if (fold.open) fill(fold); });
    fold.owner = own;
    return fold;
  }

  function fill(fold) {
    if (!fold.owner || fold.querySelector(":scope > .below")) return;
    const before = doc;
    doc = fold.owner;
    const node = doc.nodes[Number(fold.dataset.node)];
    const rule = doc.rules[node.rule];
    if (node.sentence) fold.append(make("span", "sentence", node.sentence));
    const by = make("span", "rule");
    by.append(make("code", "", rule.text), make("span", "quiet", "  " + rule.place));
    if (node.size > 1) by.append(make("span", "quiet", "  one of " + node.size + " instances"));
    fold.append(by);
    const below = make("div", "below");
    for (const premise of node.premises) below.append(...parts(premise));
    fold.append(below);
    doc = before;
  }

  function parts(premise) {
    if (premise.kind === "fact") {
      return [premise.node < 0 ? make("div", "node leaf quiet", premise.text + " (deeper)") : fact(premise.node)];
    }
    if (premise.kind === "pattern") return [];
    const text = premise.kind === "absent" ? "no " + premise.text : premise.text;
    const rows = premise.kind === "aggregate" ? ", of " + premise.size + (premise.size === 1 ? " row" : " rows") : "";
    const leaf = make("div", "node leaf " + premise.kind);
    leaf.append(make("span", "fact", text + rows));
    const rest = make("div", "below");
    rest.append(...(premise.nodes || []).map((at) => fact(at)));
    return rest.childElementCount ? [leaf, rest] : [leaf];
  }

  function setAll(tree, open) {
    if (!open) {
      for (const fold of tree.querySelectorAll("details[open]")) fold.open = false;
      return;
    }
    let count = 0, changed = true;
    while (changed && count < MOST) {
      changed = false;
      for (const fold of tree.querySelectorAll("details")) {
        if (fold.open) continue;
        fill(fold);
        fold.open = changed = true;
        if (++count >= MOST) break;
      }
    }
  }

  function button(text, look, act) {
    const made = make("button", "", text);
    made.className = look;
    made.type = "button";
    made.addEventListener("click", act);
    return made;
  }

  function turn() {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  }

  function drawn(part, at, draw) { // what is unfolded later belongs to its own document
    const before = doc;
    doc = part;
    const made = draw(at);
    doc = before;
    return made;
  }

  function proof(into) {
    const root = doc.nodes[doc.root];
    if (root.sentence) into.append(make("p", "", root.sentence));
    into.append(make("p", "quiet", "holds in epoch " + doc.epoch + ", by a proof of height " + doc.height));
    const base = make("ul", "base");
    for (const at of doc.base) base.append(make("li", "fact", doc.nodes[at].text));
    const count = doc.base.length;
    into.append(make("h2", "", "Because of " + count + (count === 1 ? " fact" : " facts")), base);
    const tree = make("div", "tree");
    const top = fact(doc.root);
    tree.append(top);
    into.append(make("h2", "", "How"), folds(tree), tree);
    if (top.dataset.node !== undefined) { fill(top); top.open = true; }
    if (doc.others.length) {
      const others = make("div", "tree");
      for (const at of doc.others) others.append(fact(at));
      into.append(make("h2", "", "Further ways, " + doc.instances + " instances in all"), others);
    }
  }

  function folds(tree) {
    const buttons = make("div", "buttons");
    buttons.append(button("unfold", "unfold", () => setAll(tree, true)));
    buttons.append(button("fold", "fold", () => setAll(tree, false)));
    return buttons;
  }

  function answer(at) {
    const said = doc.answers[at];
    const box = make("div", "node");
    const title = make("div", "leaf missing");
    title.append(make("span", "fact", said.text));
    title.append(make("span", "quiet", "  is absent" + (said.note ? ": " + said.note : "")));
    box.append(title);
    if (said.near.length) box.append(make("div", "leaf quiet", "there is " + said.near.join(", ")));
    for (const attempt of said.attempts) {
      const fold = make("details", "attempt");
      fold.open = true;
      const rule = doc.rules[attempt.rule];
      const line = make("summary");
      line.append(make("code", "", rule.text), make("span", "quiet", "  " + rule.place));
      const below = make("div", "below");
      const count = attempt.instances;
      if (count > 1) below.append(make("div", "leaf quiet", "the nearest of " + count + " instances"));
      for (const literal of attempt.literals) if (!literal.pattern) below.append(...tried(literal));
      fold.append(line, below);
      box.append(fold);
    }
    return box;
  }

  function tried(literal) {
    const leaf = make("div", "leaf " + literal.state);
    leaf.append(make("span", "state", literal.state), make("span", "fact", literal.text));
    const all = [leaf];
    if (literal.near) all.push(make("div", "leaf quiet", "there is " + literal.near.join(", ")));
    if (literal.blockers) {
      const told = literal.blockers.join(", ");
      const open = `blocked by ${told}; without that, others may block it`;
      all.push(make("div", "leaf quiet", literal.state === "open" ? open : "by " + told));
    }
    for (const at of literal.proofs || []) all.push(drawn(doc.proofs[at], doc.proofs[at].root, fact));
    if (literal.answer > 0) all.push(answer(literal.answer));
    return all;
  }

  function whyNot(into) {
    into.append(make("p", "quiet", "does not hold in epoch " + doc.epoch));
    const tree = make("div", "tree");
    tree.append(answer(0));
    into.append(make("h2", "", "What comes nearest"), folds(tree), tree);
  }

  function between(into) {
    const [first, last] = doc.epochs;
    const words = { appeared: "appeared", vanished: "vanished", held: "holds", absent: "is absent" };
    const when = doc.change.endsWith("ed") ? " between epoch " : " in epoch ";
    into.append(make("p", "", words[doc.change] + when + first + " and epoch " + last));
    const causes = make("ul", "base");
    for (const cause of doc.causes) {
      causes.append(make("li", "fact " + cause.change, cause.text + " was " + cause.change));
    }
    if (doc.causes.length) into.append(make("h2", "", "Because"), causes);
    for (const [number, part] of [[first, doc.before], [last, doc.after]]) {
      const box = make("section");
      box.append(make("h2", "", "Epoch " + number));
      drawn(part, box, part.kind === "why" ? proof : whyNot);
      into.append(box);
    }
  }

  const head = make("header");
  head.append(make("h1", "", told.fact), button("light / dark", "theme", turn));
  page.append(head);
  ({ "why": proof, "why-not": whyNot, "between": between })[told.kind](page);
})();
