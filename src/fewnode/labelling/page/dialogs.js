// The few dialogs: choosing a class, what to do with one, files, keys.
import { byId, count, el, percent, user } from "./dom.js";
import { colourOf } from "./colours.js";
import { download } from "./api.js";
import { toast } from "./dom.js";

const place = () => byId("dialog");
export const isOpen = () => place().open;
const close = () => place().close();

function show(...children) {
  const dialog = place();
  dialog.replaceChildren(...children.filter(Boolean), el("div", { class: "line" }, el("button", { onclick: close }, "Close ", el("kbd", {}, "Esc"))));
  if (!dialog.open) dialog.showModal();
  dialog.querySelector("input, button")?.focus();
}

export function chooseClass(state, title, chosen) { // any class by typing; a name that is none becomes one
  const input = el("input", { type: "text", maxlength: "200", placeholder: "Type a name", "aria-label": title, autocomplete: "off" });
  const list = el("ul", { class: "picks", role: "listbox" });
  let picks = [], at = 0;
  const take = (name) => { close(); chosen(name); };
  const draw = () => {
    const words = input.value.trim(), folded = words.toLowerCase();
    const like = state.classes.map((one, index) => ({ ...one, index })).filter((one) => one.name.toLowerCase().includes(folded));
    const same = like.filter((one) => one.name.toLowerCase() === folded);
    const first = same.length || !words ? same : [{ name: words, fresh: true }]; // what was typed, not what it is a part of
    picks = [...first, ...like.filter((one) => !same.includes(one))].slice(0, 50);
    at = Math.min(at, Math.max(picks.length - 1, 0));
    list.replaceChildren(...picks.map((one, i) => el("li", { role: "option", "aria-selected": String(i === at), onclick: () => take(one.name) },
      one.fresh ? "New class: " : el("span", { class: "swatch", color: colourOf(state.classes, one.index) }), user(one.name))));
    list.children[at]?.scrollIntoView({ block: "nearest" });
  };
  input.addEventListener("input", () => { at = 0; draw(); });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") at = Math.min(at + 1, picks.length - 1);
    else if (event.key === "ArrowUp") at = Math.max(at - 1, 0);
    else if (event.key === "Enter") { event.preventDefault(); if (picks[at]) take(picks[at].name); return; }
    else return;
    event.preventDefault();
    draw();
  });
  show(el("h2", {}, title), input, list);
  draw();
}

export function nameClass(step) {
  const input = el("input", { type: "text", maxlength: "200", placeholder: "What are they called?", "aria-label": "Name of the class", autocomplete: "off" });
  const made = (event) => { event.preventDefault(); close(); step({ do: "class", name: input.value }); };
  show(el("h2", {}, "A new class"), el("form", { onsubmit: made }, input, el("button", { class: "main" }, "Add")));
}

export function classMenu(state, index, { step, ask, more, pick }) {
  const one = state.classes[index], own = one.kind === "new", then = (action) => () => { close(); action(); };
  const rename = el("input", { type: "text", value: one.name, maxlength: "200", "aria-label": "New name" });
  const into = el("select", { "aria-label": "Class to merge into" }, state.classes.filter((_, i) => i !== index).map((other) => el("option", { value: other.name }, other.name)));
  show(
    el("h2", {}, user(one.name)),
    el("p", {}, `${count(one.predicted)} nodes are predicted so, ${count(one.sure)} of them surely (${percent(0.9)} or more). `,
      one.labelled ? `${count(one.labelled)} are labelled so in the graph. ` : "", `${count(one.count)} were shown by you.`),
    el("div", { class: "line" },
      el("button", { onclick: then(() => ask("doubtful", one.name)) }, "Ask me doubtful ones"),
      el("button", { onclick: then(() => ask("sure", one.name)) }, "Check sure ones"),
      el("button", { onclick: then(() => more(one.name)) }, "More of these, all at once")),
    own && el("form", { onsubmit: (event) => { event.preventDefault(); close(); step({ do: "rename", name: one.name, to: rename.value }); } }, rename, el("button", {}, "Rename")),
    own && el("div", { class: "line" }, "Merge into", into, el("button", { onclick: then(() => step({ do: "merge", name: one.name, into: into.value })) }, "Merge")),
    own && el("div", { class: "line" }, el("button", { onclick: then(() => step({ do: "remove", name: one.name })) }, "Remove the class"), el("span", { class: "quiet" }, "Undo brings it back.")),
    one.examples.length > 0 && el("div", {}, el("h2", {}, "Shown by you"), el("ul", { class: "list" }, one.examples.slice(0, 60).map((row) =>
      el("li", {}, el("button", { class: "plain", onclick: then(() => pick(row.id)) }, user(row.name)), el("button", { class: "plain", "aria-label": `Take ${row.name} back`, onclick: then(() => step({ do: "take", ids: [row.id] })) }, "take back"))))));
}

export function filesMenu() {
  const save = (name) => async () => {
    try { await download(name); close(); toast(`${name} is saved`); } catch (error) { toast(error.message, true); }
  };
  show(el("h2", {}, "Save files"),
    el("p", {}, "The same tables as the command line writes: fewnode predict with this support.csv gives these predictions, to the last digit."),
    el("div", { class: "line" }, el("button", { class: "main", onclick: save("support.csv") }, "support.csv"), el("button", { onclick: save("predictions.csv") }, "predictions.csv"), el("button", { onclick: save("predictions.parquet") }, "predictions.parquet")));
}

const KEYS = [
  ["A", "ask me: the next node worth a look"], ["Enter", "yes, the predicted class is right"], ["1 – 9", "give to your class with this number"],
  ["0", "none of these"], ["C", "another class, by typing its name; a new name makes a class"], ["S", "skip"],
  ["N", "name a class"], ["T or Delete", "take an example back"], ["M", "more like this, all at once"], ["Z, Shift+Z", "undo, redo"],
  ["/", "find a node"], ["L", "lasso (or Shift and drag)"], ["F", "whole map"], ["Arrows, + −", "move and zoom (map focused); Enter selects the node in the middle"],
  ["Esc", "nothing selected, no question"], ["?", "this list"],
];
export function keysHelp() {
  show(el("h2", {}, "Keys"), el("dl", {}, KEYS.flatMap(([key, what]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, what)])));
}
