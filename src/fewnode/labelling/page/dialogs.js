// The few dialogs: choosing a class, what to do with one, files, keys.
import { byId, count, el, percent, toast, user } from "./dom.js";
import { colourOf } from "./colours.js";
import { download, get } from "./api.js";
import { aboutOf, said } from "./panel.js";

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

export function nameClass(state, step, more) { // a sentence about it shows its candidates at once, where a text encoder can read it
  const input = el("input", { type: "text", maxlength: "200", placeholder: "What are they called?", "aria-label": "Name of the class", autocomplete: "off" });
  const about = guidelines("");
  const made = async (event) => {
    event.preventDefault();
    close();
    const name = input.value.trim(), text = about.value.trim();
    if (await step({ do: "class", name, text }) && state.described && text) more(name);
  };
  show(el("h2", {}, "A new class"),
    state.described && el("p", { class: "quiet" }, "A sentence that describes it is enough to begin with: its likeliest nodes are shown at once."),
    el("form", { onsubmit: made }, input, about, el("button", { class: "main" }, "Add")));
}

export function growMenu(state, grow) { // which classes would become known
  const { least } = state, own = state.classes.filter((one) => one.kind === "new");
  const list = (title, some) => some.length > 0 && el("div", {}, el("h2", {}, title), el("ul", { class: "list" }, some.map((one) => el("li", {}, user(one.name), el("span", { class: "about" }, `${count(one.answers)} ${one.answers === 1 ? "answer" : "answers"}`)))));
  const button = el("button", { class: "main", onclick: async () => { button.disabled = true; button.textContent = "Learning…"; await grow(); close(); } }, "Learn now");
  show(el("h2", {}, "Learn for good"),
    el("p", {}, `All answers become labels of the model in its folder. A class with ${least} answers or more becomes a known one. This cannot be undone; answers after it can.`),
    list("Become known", own.filter((one) => one.answers >= least)),
    list("Stay new", own.filter((one) => one.answers < least)),
    el("div", { class: "line" }, button));
}

const guidelines = (text) => el("textarea", { rows: "3", maxlength: "4000", placeholder: "What belongs to it, and what does not (optional)", "aria-label": "Description of the class" }, text);

export function classMenu(state, index, { step, ask, more, pick }) {
  const one = state.classes[index], own = one.kind === "new", then = (action) => () => { close(); action(); };
  const rename = el("input", { type: "text", value: one.name, maxlength: "200", "aria-label": "New name" });
  const into = el("select", { "aria-label": "Class to merge into" }, state.classes.filter((_, i) => i !== index).map((other) => el("option", { value: other.name }, other.name)));
  const about = guidelines(one.about);
  show(
    el("h2", {}, user(one.name)),
    el("form", { onsubmit: (event) => { event.preventDefault(); close(); step({ do: "describe", name: one.name, text: about.value.trim() }); } }, about, el("button", {}, "Save the description")),
    el("p", {}, `${count(one.predicted)} nodes are predicted so, ${count(one.sure)} of them surely (${percent(0.9)} or more). `,
      one.labelled ? `${count(one.labelled)} are labelled so in the graph. ` : "", `${count(one.answers)} ${one.answers === 1 ? "answer says" : "answers say"} so.`),
    el("div", { class: "line" },
      el("button", { onclick: then(() => ask("doubtful", one.name)) }, "Ask me doubtful ones"),
      el("button", { onclick: then(() => ask("sure", one.name)) }, "Check sure ones"),
      el("button", { onclick: then(() => more(one.name)) }, "More of these, all at once")),
    own && el("form", { onsubmit: (event) => { event.preventDefault(); close(); step({ do: "rename", name: one.name, to: rename.value }); } }, rename, el("button", {}, "Rename")),
    own && el("div", { class: "line" }, "Merge into", into, el("button", { onclick: then(() => step({ do: "merge", name: one.name, into: into.value })) }, "Merge")),
    own && el("div", { class: "line" }, el("button", { onclick: then(() => step({ do: "remove", name: one.name })) }, "Remove the class"), el("span", { class: "quiet" }, "Undo brings it back.")),
    one.examples.length > 0 && el("div", {}, el("h2", {}, "Examples"), el("ul", { class: "list spread scroll" }, one.examples.slice(0, 60).map((row) =>
      el("li", {}, el("button", { class: "plain", onclick: then(() => pick(row.id)) }, user(row.title || row.name)), el("button", { class: "plain", "aria-label": `Take ${row.name} back`, onclick: then(() => step({ do: "take", ids: [row.id] })) }, "take back"))))));
}

export function filesMenu() {
  const save = (name) => async () => {
    try { await download(name); toast(`${name} is saved`); } catch (error) { toast(error.message, true); }
  };
  show(el("h2", {}, "Save files"),
    el("p", {}, "The same tables as the command line writes: fewnode predict with this support.csv gives these predictions, to the last digit."),
    el("div", { class: "line" }, el("button", { class: "main", onclick: save("support.csv") }, "support.csv"), el("button", { onclick: save("predictions.csv") }, "predictions.csv"), el("button", { onclick: save("predictions.parquet") }, "predictions.parquet")),
    el("p", {}, "All labels, corrected ones too, for fewnode fit --labels:"),
    el("div", { class: "line" }, el("button", { onclick: save("labels.csv") }, "labels.csv")),
    el("p", {}, "What everybody said, for Label Studio and Argilla; what they agree on, for doccano:"),
    el("div", { class: "line" }, ["label-studio.json", "argilla.jsonl", "doccano.jsonl"].map((name) => el("button", { onclick: save(name) }, name))));
}

const kappa = (value) => (value === null ? "–" : value.toFixed(2).replace("-", "−"));
const kappas = (classes) => Object.entries(classes).flatMap(([name, value], i) => [i ? ", " : "", user(name), ` ${kappa(value)}`]);
export async function reviewMenu(state, { step, pick }, which = "all") { // every answer: to look at, change, comment or take back
  const found = await get("/api/answers"), differ = (row) => new Set(Object.values(row.people).map((one) => one.label)).size > 1;
  const kinds = { all: () => true, "mine": (row) => row.people[state.who], differ, "not sure": (row) => Object.values(row.people).some((one) => one.unsure), corrections: (row) => row.given && !row.marked, comments: (row) => Object.values(row.people).some((one) => one.text) };
  const again = async (body) => { await step(body); reviewMenu(state, { step, pick }, which); };
  const line = (row) => {
    const mine = row.people[state.who], all = Object.values(row.people), settle = !mine && (differ(row) || "\n" in row.people || all.every((one) => one.unsure)); // else one more answer
    const label = el("select", { "aria-label": `Class of ${row.name}`, onchange: () => again({ do: "label", ids: [row.id], class: label.value, unsure: mine?.unsure ?? false, settle }) },
      mine?.label ? "" : el("option", { value: "" }, mine ? "skipped" : settle ? "settle…" : "your answer…"), state.classes.map((one) => el("option", { value: one.name, selected: mine?.label === one.name }, one.name)));
    const text = el("input", { type: "text", maxlength: "4000", value: mine?.text ?? "", placeholder: "comment", "aria-label": `Comment on ${row.name}`, onchange: () => again({ do: "label", ids: [row.id], class: mine.label, unsure: mine.unsure, text: text.value.trim() }) });
    return el("tr", { "data-node": row.name }, el("td", {}, el("button", { class: "plain user", title: row.name, onclick: () => { close(); pick(row.id); } }, row.title || row.name), el("span", { class: "about user" }, aboutOf(row))),
      el("td", {}, el("ul", { class: "list" }, said(Object.fromEntries(Object.entries(row.people).filter(([who, one]) => who !== state.who || one.unsure))))), el("td", {}, label), el("td", {}, mine?.label ? text : ""),
      el("td", {}, mine?.label ? el("button", { "aria-pressed": String(mine.unsure), onclick: () => again({ do: "label", ids: [row.id], class: mine.label, unsure: !mine.unsure }) }, "not sure") : "",
        mine || row.people["\n"] ? el("button", { "aria-label": `Take ${row.name} back`, onclick: () => again({ do: "take", ids: [row.id] }) }, "take back") : ""));
  };
  const { agreement } = found, rows = found.rows.filter(kinds[which]);
  show(el("h2", {}, "Answers"),
    el("div", { class: "line" }, Object.keys(kinds).map((kind) => el("button", { "aria-pressed": String(kind === which), onclick: () => reviewMenu(state, { step, pick }, kind) }, `${kind} (${found.rows.filter(kinds[kind]).length})`))),
    rows.length ? el("div", { class: "scroll" }, el("table", { class: "review" }, rows.slice(0, 500).map(line))) : el("p", { class: "hint" }, "Nothing here."),
    agreement.nodes > 0 && el("p", {}, `${agreement.nodes} nodes were answered by several people. Fleiss' kappa: ${kappa(agreement.fleiss)} (`, kappas(agreement.classes), ")"),
    agreement.pairs.length > 0 && el("table", { class: "review" }, agreement.pairs.map((pair) => el("tr", {}, el("td", {}, user(pair.people.map((who) => who || "(no name)").join(" and "))), el("td", {}, `${pair.nodes} nodes, ${percent(pair.share)} alike`), el("td", {}, `Cohen's kappa ${kappa(pair.cohen)}`), el("td", {}, kappas(pair.classes))))),
    el("p", { class: "quiet" }, state.people.length > 1 ? `You are ${state.who}. People: ${state.people.join(", ")}. ` : "", "To go on in another browser: ", el("button", { onclick: async (event) => event.target.replaceWith(user((await get("/api/link")).url), " (works once)") }, "New link")));
}

const KEYS = [
  ["A", "ask me: the next node worth a look"], ["Enter", "yes, the predicted class is right"], ["1 – 9", "give to your class with this number"],
  ["0", "none of these"], ["C", "another class, by typing its name; a new name makes a class"], ["S", "skip"], ["U", "not sure: the next answer waits for review"], ["R", "all answers: review, change, comment"],
  ["N", "name a class"], ["T or Delete", "take an example back"], ["M", "more like this, all at once"], ["Z, Shift+Z", "undo, redo"],
  ["/", "find a node"], ["L", "lasso (or Shift and drag)"], ["F", "whole map"], ["Arrows, + −", "move and zoom (map focused); Enter selects the node in the middle"],
  ["Esc", "nothing selected, no question"], ["?", "this list"],
];
export function keysHelp() {
  show(el("h2", {}, "Keys"), el("dl", {}, KEYS.flatMap(([key, what]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, what)])));
}
