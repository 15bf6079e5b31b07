"use strict";
(() => {
  const doc = JSON.parse(document.getElementById("document").textContent);
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
    const fold = make("details", "node derived");
    fold.dataset.node = at;
    const title = make("summary");
    title.append(make("span", "fact", node.text));
    fold.append(title);
    fold.addEventListener("toggle", () => { if (fold.open) fill(fold); });
    return fold;
  }

  function fill(fold) {
    if (fold.querySelector(":scope > .below")) return;
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
  }

  function parts(premise) {
    if (premise.kind === "fact") {
      return [premise.node < 0 ? make("div", "node leaf quiet", premise.text + " (deeper)") : fact(premise.node)];
    }
    const text = premise.kind === "absent" ? "no " + premise.text : premise.text;
    const rows = premise.kind === "aggregate" ? ", of " + premise.size + (premise.size === 1 ? " row" : " rows") : "";
    const leaf = make("div", "node leaf " + premise.kind);
    leaf.append(make("span", "fact", text + rows));
    return [leaf, ...(premise.nodes || []).map((at) => fact(at))];
  }

  function setAll(open) {
    let count = 0, changed = true;
    while (changed && count < MOST) {
      changed = false;
      for (const fold of page.querySelectorAll(".tree details")) {
        if (fold.open === open) continue;
        if (open) fill(fold);
        fold.open = open;
        changed = open;
        if (++count >= MOST) break;
      }
    }
  }

  function button(text, id, act) {
    const made = make("button", "", text);
    made.id = id;
    made.type = "button";
    made.addEventListener("click", act);
    return made;
  }

  function turn() {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  }

  function proof() {
    const root = doc.nodes[doc.root];
    const head = make("header"), title = make("div");
    title.append(make("h1", "", root.text));
    if (root.sentence) title.append(make("p", "", root.sentence));
    title.append(make("p", "quiet", "holds in epoch " + doc.epoch + ", by a proof of height " + doc.height));
    head.append(title, button("light / dark", "theme", turn));
    const base = make("ul", "base");
    for (const at of doc.base) base.append(make("li", "fact", doc.nodes[at].text));
    const buttons = make("div", "buttons");
    buttons.append(button("unfold", "unfold", () => setAll(true)), button("fold", "fold", () => setAll(false)));
    const tree = make("div", "tree");
    const top = fact(doc.root);
    tree.append(top);
    page.append(head, make("h2", "", "Because of " + doc.base.length + (doc.base.length === 1 ? " fact" : " facts")), base);
    page.append(make("h2", "", "How"), buttons, tree);
    if (top.open !== undefined) { fill(top); top.open = true; }
    if (doc.others && doc.others.length) {
      const others = make("div", "tree");
      for (const at of doc.others) others.append(fact(at));
      page.append(make("h2", "", "Further ways, " + doc.instances + " instances in all"), others);
    }
  }

  proof();
})();
