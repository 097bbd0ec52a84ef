// The node, or nodes, that are looked at: what is known, what is predicted, why, and the answers.
import { byId, count, el, percent, short, svg, user } from "./dom.js";
import { colourOf } from "./colours.js";
import { keyOf } from "./classes.js";
import { get } from "./api.js";

const BUTTONS = 12; // classes with a button of their own

export function drawPanel(place, state, { rows, node, asking, acts }) {
  const parts = !rows.length ? nothing(state, asking, acts)
    : rows.length > 1 ? several(state, rows, acts) : single(state, rows[0], node, asking, acts);
  place.replaceChildren(...parts.filter(Boolean));
}

function nothing(state, asking, acts) {
  if (asking?.waiting) return [el("p", { class: "quiet" }, asking.title), el("p", { class: "hint" }, "Looking for questions…")];
  const why = asking ? emptyQueue(state, asking) : null;
  return [
    el("h3", {}, why ? "No question left" : "What would you like to find?"),
    el("p", { class: "hint" }, why ?? (state.classes.some((one) => one.kind === "new")
      ? "Let yourself be asked: each answer is one key, and the whole map learns from it. Or choose a node on the map, or search for one."
      : "Find one node of the class you are after (search, or click on the map), press C and name the class. If you have none in mind, be asked: you are shown a typical node of each region.")),
    el("div", { class: "answers" }, el("button", { class: "main", onclick: () => acts.ask() }, "Ask me ", el("kbd", {}, "A"))),
    ...state.notes.map((note) => el("p", { class: "hint user" }, note)),
  ];
}

function emptyQueue(state, asking) {
  if (byId("value").value) return "No node with this value is left to ask about. Choose another value, or any column.";
  if (asking.label) return `No node without a label is left to ask about ${asking.label}. Choose another queue, or give it another example.`;
  return state.skipped ? `Every node without a label was answered or skipped (${state.skipped} skipped; undo brings them back).` : "Every node has a label already, so there is nothing to ask.";
}

// Addresses in the user's data can be followed; pictures are shown if the server allows their host.
const IMAGE = /\.(png|jpe?g|gif|webp)(\?|$)/i;
function cell(value) {
  return value.split(/(https?:\/\/[^\s<>"]+)/).map((part, i) => (i % 2 === 0 ? part
    : el("a", { href: part, target: "_blank", rel: "noopener noreferrer" }, part === value && IMAGE.test(part) ? el("img", { src: part, alt: part, loading: "lazy" }) : part)));
}

export const headline = (row) => row.title || row.name;
export const aboutOf = (row) => [row.title && row.name, row.about].filter(Boolean).join(" · "); // id and text under the title
const noneOf = (state) => (state.classes.some((one) => one.kind === "new") ? "none of these" : "none of the known classes");
export function said(people) { // who said what
  return Object.entries(people).map(([who, one]) => el("li", { class: "said" }, who === "\n" ? "settled: " : who ? el("b", { class: "user" }, `${who}: `) : "",
    user(one.label || "skipped"), one.unsure ? " (not sure)" : "", one.text ? el("span", { class: "about user", title: one.text }, one.text) : ""));
}

function answers(state, acts, predicted, marked, like = null, instead = null) {
  const buttons = [];
  state.classes.forEach((one, index) => {
    if (one.kind === "known" || one.name === predicted || buttons.length >= BUTTONS) return;
    const label = one.kind === "other" ? noneOf(state) : one.name;
    buttons.push(el("button", { onclick: () => acts.give(one.name), "data-answer": one.name }, el("span", { class: "dot", color: colourOf(state.classes, index) }), user(label), keyOf(state.classes, index) ? el("kbd", {}, keyOf(state.classes, index)) : ""));
  });
  if (instead) buttons.unshift(el("button", { onclick: () => acts.give(instead), "data-answer": instead }, "No, ", user(instead)));
  return el("div", { class: "answers" },
    predicted && el("button", { class: "main", onclick: () => acts.give(predicted) }, "Yes, ", user(state.classes.some((one) => one.kind === "other" && one.name === predicted) ? noneOf(state) : predicted), el("kbd", {}, "Enter")),
    ...buttons,
    el("button", { onclick: acts.other }, "Another class… ", el("kbd", {}, "C")),
    el("button", { id: "unsure", "aria-pressed": String(acts.isUnsure()), onclick: acts.unsure, title: "Keep the next answer for review; it is not learned from" }, "Not sure ", el("kbd", {}, "U")),
    marked ? el("button", { onclick: acts.take }, "Take back ", el("kbd", {}, "T")) : el("button", { onclick: acts.skip }, "Skip ", el("kbd", {}, "S")),
    like,
    el("input", { id: "comment", type: "text", maxlength: "4000", placeholder: "Comment on the answer (optional)", "aria-label": "Comment on the answer", autocomplete: "off", value: acts.comment(), onkeydown: (event) => { if (event.key === "Enter") event.target.blur(); } }));
}

export const comment = () => byId("comment")?.value.trim() || undefined;

function single(state, row, node, asking, acts) {
  const name = state.classes[row.class]?.name, parts = [];
  const like = el("button", { onclick: acts.like }, "More like this ", el("kbd", {}, "M"));
  const mine = row.people?.[state.who], told = state.classes[row.class]?.about, correct = asking?.by === "issues" || row.people?.["\n"];
  const blind = asking && asking.by !== "open" && row.marked && !mine; // asked twice: the other answer stays hidden
  const settled = row.given && !row.marked && row.people?.["\n"]?.label; // what somebody said of the label in the graph
  const verdict = !settled ? "" : settled === name ? ", and confirmed" : [", corrected to ", user(settled)];
  const text = blind ? el("p", { class: "question" }, "What is this?") : row.marked ? el("p", { class: "given" }, mine?.label === name ? "You gave it to " : "It was given to ", user(name), ".")
    : asking?.by === "open" ? el("p", { class: "question" }, "What is it? Your answer settles it.")
    : row.given ? el("p", { class: "given" }, "Labelled ", user(name), " in the graph", ...[verdict].flat(), ".")
    : name ? el("p", { class: asking ? "question" : "" }, asking ? "Is this " : "Predicted ", user(asking && state.classes[row.class].kind === "other" ? noneOf(state) : name), asking ? "? " : ", ", el("span", { class: "quiet" }, percent(row.confidence)))
    : el("p", { class: asking ? "question" : "hint" }, asking ? "What is this?" : "Nothing is predicted yet.");
  if (asking) parts.push(el("p", { class: "quiet" }, asking.title));
  if (asking?.by === "issues") parts.push(el("p", { class: "question" }, "Is this label right?"), row.issue && el("p", { class: "hint" }, "A model that has not seen the label suggests ", user(row.issue[0]), ` (${row.issue[1]}).`));
  parts.push(text, el("h3", { class: "user" }, headline(row)), row.title && el("p", { class: "quiet user" }, row.name));
  if (settled && settled !== name) parts.push(el("p", { class: "hint" }, "Predictions use the correction after Learn for good."));
  if (told && !blind) parts.push(el("p", { class: "hint user" }, `${name}: ${told}`));
  const people = Object.fromEntries(Object.entries(row.people ?? {}).filter(([who, one]) => who !== "\n" || !settled || one.text));
  if (Object.keys(people).length && !blind) parts.push(el("ul", { class: "list" }, said(people)));
  if (!row.given || row.marked || correct) parts.push(answers(state, acts, name && !row.marked && !settled && asking?.by !== "open" ? name : null, (row.marked && !blind) || mine || row.people?.["\n"], like, asking?.by === "issues" ? row.issue?.[0] : null));
  else parts.push(el("div", { class: "answers" }, like, el("button", { onclick: acts.other }, "Correct the label… ", el("kbd", {}, "C"))));
  if (!node) return [...parts, el("p", { class: "hint" }, "…")];
  const facts = node.columns.filter(([, value]) => value !== row.title);
  if (facts.length) parts.push(el("table", { class: "facts" }, facts.map(([key, value]) => el("tr", {}, el("th", { class: "user", title: key }, key), el("td", { class: "user" }, cell(value))))));
  if (node.probabilities.length && !blind) parts.push(el("h4", {}, "Probabilities"), ...node.probabilities.slice(0, 6).map(([label, p]) => bar(state, label, p)));
  if (!blind) parts.push(el("div", { id: "why" })); // the node itself is among the examples
  parts.push(el("h4", {}, `Neighbours (${count(node.degree)})`), rowsList(state, node.neighbours, acts));
  return parts;
}

function bar(state, label, p) {
  const index = state.classes.findIndex((one) => one.name === label);
  const track = svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none" }, svg("rect", { width: 100 * p, height: 10, fill: colourOf(state.classes, index) }));
  return el("div", { class: "bar" }, el("span", { class: "name user", title: label }, short(label, 18)), el("span", { class: "track" }, track), el("span", {}, percent(p, p < 0.1 ? 1 : 0)));
}

export function rowsList(state, rows, acts, drop) {
  return el("ul", { class: drop ? "list tall" : "list" }, rows.map((row) => el("li", {},
    el("span", { class: "swatch", color: colourOf(state.classes, row.class), title: state.classes[row.class]?.name ?? "nothing predicted" }),
    el("button", { class: "plain user", title: row.name, onclick: () => acts.pick(row.id) }, headline(row)),
    aboutOf(row) && el("span", { class: "about user" }, aboutOf(row)),
    drop && el("button", { class: "plain", "aria-label": `Leave ${row.name} out`, onclick: () => drop(row.id) }, "✕"))));
}

function several(state, rows, acts) {
  const labelled = rows.filter((row) => row.given && !row.marked).length;
  return [
    el("h3", {}, `${count(rows.length)} nodes selected`),
    el("p", { class: "hint" }, "Give all of them to a class at once; leave out (✕) those that do not belong."),
    labelled > 0 && el("p", { class: "hint" }, `${count(labelled)} of them have a label in the graph, which is corrected one at a time: click the node.`),
    answers(state, acts, null, false),
    rowsList(state, rows.slice(0, 100), acts, acts.drop),
    rows.length > 100 && el("p", { class: "hint" }, `and ${count(rows.length - 100)} more`),
  ];
}

export async function drawWhy(place, id) {
  const found = await get(`/api/why?id=${id}`);
  if (!found || !place.isConnected) return;
  const signed = (v) => (v === null ? "" : `${v >= 0 ? "for it" : "against"} ${Math.abs(v).toFixed(2)}`);
  const lines = (title, rows) => (rows.length ? [el("h4", {}, title), el("ul", { class: "list" }, rows)] : []);
  const alike = found.examples.slice(0, 4).map((one) => el("li", {}, user(one.title || one.node), el("span", { class: "about" }, user(one.label), ` · ${percent(Math.max(one.similarity, 0))} alike`)));
  const around = found.neighbours.slice(0, 4).map((one) => el("li", {}, user(one.title || one.node), el("span", { class: "about" }, user(one.label), one.labelled ? " (labelled)" : "", one.evidence === null ? "" : ` · ${signed(one.evidence)}`)));
  const columns = [...found.columns].sort((a, b) => Math.abs(b.evidence) - Math.abs(a.evidence)).slice(0, 5).map((one) => el("li", {}, user(one.name), el("span", { class: "about" }, `${one.more ? "more" : "less"} than usual · ${signed(one.evidence)}`)));
  const changes = found.changes.map((one) => el("li", {}, `Without ${one.what === "edges" ? "the edge to" : one.what === "examples" ? "the example" : "the column"} `, user(one.without.join(", ")), " it would be ", user(one.label)));
  place.replaceChildren(...lines("Why: examples it is like", alike), ...lines("Why: its neighbours say", around), ...lines("Why: words and columns", columns), ...lines("What would change it", changes));
}
