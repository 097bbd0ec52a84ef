// The list of classes: the legend of the map, and what can be done with a class.
import { byId, count, el, percent, short, user } from "./dom.js";
import { SHAPES, colourOf, shapeOf } from "./colours.js";

export function keyOf(classes, index) {
  const one = classes[index];
  if (one?.kind === "other") return "0";
  return one?.kind === "new" && index < 9 ? String(index + 1) : "";
}

export function drawClasses(state, map, { open, changed }) {
  const { classes } = state, row = (index) => {
    const one = classes[index], off = map.hidden.has(index);
    const toggle = () => {
      if (off) map.hidden.delete(index); else map.hidden.add(index);
      changed();
    };
    const light = (on) => () => { map.lit = on ? index : -2; map.draw(); };
    const told = `${count(one.predicted)} predicted, ${count(one.sure)} of them sure; ` +
      `${count(one.answers)} ${one.answers === 1 ? "answer" : "answers"}${one.labelled ? `; ${count(one.labelled)} labelled in the graph` : ""}`;
    const shape = shapeOf(classes, index);
    return el("li", { class: off ? "hidden-class" : "", onmouseenter: light(true), onmouseleave: light(false), "data-class": one.name },
      el("span", { class: "key" }, keyOf(classes, index) ? el("kbd", {}, keyOf(classes, index)) : ""),
      el("button", { class: "swatch", color: colourOf(classes, index), onclick: toggle, "aria-pressed": String(!off), "aria-label": `${off ? "Show" : "Hide"} ${one.name} on the map`, title: `${off ? "Show" : "Hide"} on the map` }),
      el("button", { class: "plain name", onclick: () => open(index), onfocus: light(true), onblur: light(false), title: `${one.name}: ${told}` }, shape ? `${SHAPES[shape]} ` : "", user(short(one.name, 24))),
      el("span", { class: "count", title: told }, one.kind === "new" || one.answers ? `${count(one.answers)} → ` : "", count(one.predicted)));
  };
  const focused = document.activeElement?.closest?.("li[data-class]")?.dataset.class;
  const of = (kind) => classes.map((one, index) => [one, index]).filter(([one]) => one.kind === kind);
  byId("own").replaceChildren(...of("new").map(([, index]) => row(index)));
  byId("none").replaceChildren(...of("other").map(([, index]) => row(index)));
  const words = byId("knownwords").value.trim().toLowerCase();
  byId("knownwords").oninput = changed;
  byId("knownwords").hidden = of("known").length < 9;
  byId("known").replaceChildren(...of("known").filter(([one]) => one.name.toLowerCase().includes(words)).sort(([a], [b]) => b.predicted - a.predicted).map(([, index]) => row(index)));
  byId("rest").hidden = !of("known").length;
  byId("restcount").textContent = `(${of("known").length})`;
  byId("empty").hidden = of("new").length > 0;
  byId("legend").hidden = !of("new").length;
  if (focused) [...document.querySelectorAll("li[data-class]")].find((one) => one.dataset.class === focused)?.querySelector(".name").focus();
}

export function verdict(state) {
  const { points, answers, settled, learning, checked } = state, last = points.at(-1);
  if (!learning) return "Nothing is learned yet: two classes with an example each are needed.";
  if (!last) return "Give a class of your own an example, and this says what to expect.";
  const first = points[0], before = points.findLast((one) => one.answers <= answers - 10) ?? first;
  const parts = [`Expected accuracy ${percent(last.expected, 1)}; the model is sure (${percent(0.9)} or more) of ${percent(last.sure)} of the nodes without a label.`];
  if (answers) parts.push(`${answers} ${answers === 1 ? "answer" : "answers"} so far.`);
  if (settled) parts.push("The last ten answers changed almost nothing: a good time to stop.");
  else if (answers >= 10) parts.push(`The last ten: ${signed(last.expected - before.expected)} points.`);
  for (const [name, [n, right]] of Object.entries(checked)) parts.push(`Checked ${n} sure ${name}: ${right} right.`);
  return parts.join(" ");
}

const signed = (gain) => `${gain >= 0 ? "+" : "−"}${Math.abs(100 * gain).toFixed(1)}`;
