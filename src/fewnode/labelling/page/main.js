// The page: one state from the server, one selection, perhaps a queue of questions.
import { byId, count, el, toast } from "./dom.js";
import { get, getBytes, growNow, listen, post } from "./api.js";
import { PointMap } from "./map.js";
import { handle } from "./hands.js";
import { drawClasses, verdict } from "./classes.js";
import { drawChart } from "./chart.js";
import { comment, drawPanel, drawWhy } from "./panel.js";
import { startSearch } from "./search.js";
import { chooseClass, classMenu, filesMenu, growMenu, isOpen, keysHelp, nameClass, reviewMenu } from "./dialogs.js";

const map = new PointMap(byId("points"), byId("marks"));
let state = { version: 0, classes: [], points: [], notes: [] };
let rows = [], node = null, asking = null, lassoing = false, pending = Promise.resolve(), busy = 0, whyTimer = 0, tipTimer = 0;
let unsure = false, columns = {};
window.fewnode = { map, get state() { return state; }, get rows() { return rows; }, get busy() { return busy; } }; // for tests and the curious

// --- from the server ------------------------------------------------------------------------------------
async function refresh(fresh) {
  const [next, bytes] = await Promise.all([fresh ?? get("/api/state"), getBytes("/api/scores")]);
  const n = map.n, version = new DataView(bytes).getUint32(0, true);
  state = next;
  const known = state.classes.findIndex((one) => one.kind !== "new");
  state.classes.forEach((one, index) => { one.place = one.kind === "new" ? index : index - known; });
  map.hidden = new Set([...map.hidden].filter((index) => index < state.classes.length));
  map.setScores(new Int16Array(bytes, 4, n), new Uint8Array(bytes, 4 + 2 * n, n), new Uint8Array(bytes, 4 + 3 * n, n));
  map.setClasses(state.classes);
  map.overlay.examples = state.classes.flatMap((one, index) => one.examples.map((row) => ({ place: row.place, index })));
  drawAll();
  if (version > state.version) await refresh(); // another window was faster
}

function drawAll() {
  byId("title").textContent = state.title;
  drawClasses(state, map, { open: openClass, changed: () => { map.recolour(); drawAll(); } });
  byId("verdict").textContent = verdict(state);
  const ready = state.classes.filter((one) => one.kind === "new" && one.answers >= state.least).length;
  byId("grow").hidden = !state.open || !state.answers;
  byId("grow").textContent = ready ? `Learn for good (${ready} ${ready === 1 ? "class" : "classes"})…` : "Learn for good…";
  drawChart(byId("chart"), state.points);
  for (const which of ["undo", "redo"]) {
    byId(which).disabled = !state[which];
    byId(which).title = state[which] ? `${which === "undo" ? "Undo" : "Redo"}: ${state[which]} (${which === "undo" ? "Z" : "Shift+Z"})` : `Nothing to ${which}`;
  }
  byId("caption").textContent = state.shown < state.nodes ? `${count(state.nodes)} nodes, ${count(state.shown)} of them drawn` : `${count(state.nodes ?? 0)} nodes`;
  drawQueues();
  drawSide();
}

function step(body) { // one after the other, however fast the keys are
  busy++;
  pending = pending.then(async () => {
    const started = performance.now(), turned = state[body.do];
    try {
      await refresh(await post(body));
      if (turned) toast(`${body.do === "undo" ? "Undone" : "Done again"}: ${turned}`);
      byId("status").textContent = state.learning ? `Learned: all ${count(state.nodes)} nodes were predicted again in ${((performance.now() - started) / 1000).toFixed(2)} s.` : "Kept. Learning starts with the second class.";
      byId("banner").hidden = true;
      await renew();
      return true;
    } catch (error) { toast(error.message, true); return false; } finally { busy--; }
  });
  return pending;
}

async function grow() {
  busy++;
  byId("status").textContent = "Learning for good. Predictions stay as they are until it is done.";
  try {
    const found = await growNow(), known = Object.keys(found.grown.promoted);
    await refresh(found);
    byId("status").textContent = `Learned for good: ${count(found.grown.added)} labels more, ${count(found.grown.changed)} corrected${known.length ? `; known now: ${known.join(", ")}` : ""}.`;
    await renew();
  } catch (error) { byId("status").textContent = ""; toast(error.message, true); } finally { busy--; }
}

// --- the selection --------------------------------------------------------------------------------------
function drawSide() {
  map.overlay.selected = rows.length > 1 || !asking ? rows.slice(0, 2000).map((row) => row.place) : [];
  map.overlay.asked = asking && rows.length === 1 ? rows[0].place : null;
  map.draw();
  drawPanel(byId("node"), state, { rows, node, asking, acts });
  const why = byId("why");
  clearTimeout(whyTimer);
  if (why && state.learning && rows.length === 1) whyTimer = setTimeout(() => drawWhy(why, rows[0].id).catch(() => {}), 250);
}

async function look(id, keepAsking = false) { // at one node
  if (!keepAsking) asking = null;
  const found = await get(`/api/node?id=${id}`);
  if (rows[0]?.id !== id) byId("node").scrollTop = 0;
  rows = [found];
  node = found;
  map.show(found.place);
  drawSide();
}

function select(found) { // several nodes
  asking = null;
  map.overlay.hits = [];
  if (found.length === 1) { look(found[0].id); return; }
  rows = found;
  node = null;
  drawSide();
}

async function renew() { // what is looked at, after a step
  if (asking) { await nextQuestions(); return; }
  if (rows.length === 1) await look(rows[0].id); else drawSide();
}

async function named() { // points of a lasso have numbers only: their names come for those that are listed
  const mine = rows, first = rows.slice(0, 100).map((row) => row.id);
  if (first.length < 2) return;
  const found = await get(`/api/rows?ids=${first.join(",")}`);
  if (rows === mine) { rows = [...found, ...rows.slice(100)]; drawSide(); }
}

function clear() { asking = null; rows = []; node = null; map.overlay.hits = []; drawSide(); }

// --- questions ------------------------------------------------------------------------------------------
const filter = () => (byId("value").value ? `&column=${encodeURIComponent(byId("column").value)}&value=${encodeURIComponent(byId("value").value)}` : "");
const TITLES = { teach: "what teaches most", margin: "least sure", other: "none of these?", typical: "typical nodes", random: "at random", open: "answers to settle", issues: "labels worth doubting" };

function drawQueues() {
  const by = byId("by"), before = by.value, open = state.classes.filter((one) => one.kind !== "other");
  const options = Object.entries(TITLES).map(([value, title]) => el("option", { value }, value === "open" && state.unsettled ? `${title} (${state.unsettled})` : title));
  const own = open.filter((one) => one.kind === "new");
  for (const one of own) options.push(el("option", { value: `doubtful ${one.name}` }, `doubtful ${one.name}`), el("option", { value: `sure ${one.name}` }, `sure ${one.name}, to check`));
  by.replaceChildren(...options);
  if ([...by.options].some((option) => option.value === before)) by.value = before;
}

function ask(by, label) {
  const wanted = by ? (label ? `${by} ${label}` : by) : byId("by").value;
  const [way, ...rest] = wanted.split(" ");
  asking = { by: way, label: rest.join(" ") || null, tag: wanted, queue: [], waiting: true, title: `Asked: ${TITLES[way] ?? wanted}` };
  if ([...byId("by").options].some((option) => option.value === wanted)) byId("by").value = wanted;
  rows = [];
  map.overlay.hits = [];
  drawSide();
  return nextQuestions();
}

async function nextQuestions() {
  const mine = asking, label = mine.label ? `&class=${encodeURIComponent(mine.label)}` : "";
  try {
    if (mine.by === "issues" && !mine.queue.length) toast("Comparing the labels of the graph with held-out predictions; this may take a while the first time.");
    const queue = await get(`/api/suggest?by=${mine.by}${label}${filter()}`);
    if (asking !== mine) return;
    mine.queue = queue;
    mine.waiting = false;
    const now = rows.length === 1 && queue.find((row) => row.id === rows[0].id) ? null : queue[0];
    if (now) await look(now.id, true);
    else if (!queue.length) { rows = []; node = null; drawSide(); }
    else drawSide();
  } catch (error) { asking = null; drawSide(); toast(error.message, true); }
}

function answered(given) {
  const asked = asking?.tag, body = given.do === "label" ? { ...given, unsure, text: comment(), settle: asking?.by === "open" || (rows.length === 1 && rows[0].given && !rows[0].marked) } : given;
  unsure = false;
  if (asking) { // the next question is there at once; the queue is made anew when the answer is learned
    const next = asking.queue.find((row) => row.id !== rows[0].id && !rows.includes(row));
    asking.queue = asking.queue.filter((row) => row.id !== rows[0].id);
    const done = step({ ...body, asked });
    if (next) look(next.id, true).catch(() => {}); else { rows = []; node = null; drawSide(); }
    return done;
  }
  if (rows.length > 1) { const done = step(body); rows = []; node = null; return done; }
  return step(body);
}

const acts = {
  ask: () => ask(),
  pick: (id) => look(id),
  give(name) { if (rows.length) return answered({ do: "label", ids: rows.map((row) => row.id), class: name }); toast("Choose a node first."); },
  skip() { if (rows.length) return answered({ do: "skip", ids: rows.map((row) => row.id) }); },
  take() { if (rows.length) return step({ do: "take", ids: rows.map((row) => row.id) }); },
  other() { if (rows.length) chooseClass(state, "Which class?", (name) => acts.give(name)); else toast("Choose a node first."); },
  unsure() { unsure = !unsure; drawSide(); },
  isUnsure: () => unsure,
  comment: () => rows[0]?.people?.[state.who]?.text ?? "",
  drop(id) { select(rows.filter((row) => row.id !== id)); },
  async like() { if (rows.length) await many(get(`/api/more?like=${rows[0].id}`), rows.slice(0, 1)); },
};

async function many(wanted, also = []) {
  try {
    const found = await wanted;
    if (!found.length) { toast("The model knows nothing about that class yet: give it an example."); return; }
    select([...also.filter((row) => !row.given), ...found]);
  } catch (error) { toast(error.message, true); }
}

const more = (name) => many(get(`/api/more?class=${encodeURIComponent(name)}`));
const openClass = (index) => classMenu(state, index, { step, ask, more, pick: look });
const newClass = () => nameClass(state, step, more);

const review = () => reviewMenu(state, { step, pick: look }).catch((error) => toast(error.message, true));

function drawFilter() {
  byId("filter").hidden = !Object.keys(columns).length;
  const option = (value, text) => el("option", { value }, text);
  byId("column").replaceChildren(option("", "any column"), ...Object.keys(columns).map((name) => option(name, name)));
  byId("column").onchange = () => {
    const values = columns[byId("column").value] ?? [];
    byId("value").replaceChildren(option("", "any value"), ...values.map(([value, n]) => option(value, `${value} (${count(n)})`)));
    byId("value").disabled = !values.length;
    byId("value").onchange();
  };
  byId("value").onchange = () => { byId("matching").disabled = !filter(); if (asking) ask(); };
  byId("matching").onclick = async () => select(await get(`/api/rows?${filter()}`));
}

// --- hands and keys -------------------------------------------------------------------------------------
function setLasso(on) {
  lassoing = on;
  byId("lasso").setAttribute("aria-pressed", String(on));
  map.canvas.classList.toggle("lasso", on);
}

function hover(i, at) {
  const tip = byId("tip");
  map.overlay.hover = i >= 0 ? map.placeOf(i) : null;
  map.draw();
  tip.hidden = i < 0;
  if (i < 0) return;
  const one = state.classes[map.kind[i]];
  tip.textContent = `${one ? one.name : "nothing predicted yet"}${map.label[i] ? ", labelled" : one ? `, ${Math.round((100 * map.sure[i]) / 255)} %` : ""}`;
  clearTimeout(tipTimer);
  tipTimer = setTimeout(async () => { // what it is called, if one stays on it
    const [row] = await get(`/api/rows?ids=${map.ids[i]}`);
    if (row && !tip.hidden) tip.textContent = `${row.title || row.name}: ${tip.textContent}`;
  }, 120);
  tip.style.left = `${Math.min(at[0] + 14, map.width - 200)}px`;
  tip.style.top = `${at[1] + 14}px`;
}

handle(map, {
  pick: (i, add) => {
    if (i < 0) { if (!add) clear(); return; }
    const id = map.ids[i];
    if (add && rows.length) {
      select([...rows.filter((row) => row.id !== id), { id, name: `#${id}`, place: map.placeOf(i), class: map.kind[i], about: "" }]);
      named();
    } else look(id);
  },
  lasso: (found) => {
    setLasso(false);
    const free = found.filter((i) => map.label[i] !== 1);
    if (!free.length) { toast(found.length ? "All nodes inside the line have a label in the graph." : "No node is inside the line."); return; }
    select(free.map((i) => ({ id: map.ids[i], name: `#${map.ids[i]}`, about: "", class: map.kind[i], place: map.placeOf(i) })));
    named();
  },
  hover,
  isLasso: () => lassoing,
});

const KEYS = {
  a: () => ask(), c: acts.other, s: acts.skip, t: acts.take, Delete: acts.take, Backspace: acts.take, m: acts.like,
  u: acts.unsure, r: () => review(), n: newClass, l: () => setLasso(!lassoing), f: () => map.fit(), "?": keysHelp, "/": () => byId("words").focus(),
  Escape: () => { if (lassoing) setLasso(false); else clear(); },
  Enter: () => { // what the button says
    const free = rows.length === 1 && asking?.by !== "open" && (!rows[0].given || asking?.by === "issues"), name = free ? state.classes[rows[0].class]?.name : null;
    if (name) acts.give(name);
  },
  "0": () => { const other = state.classes.find((one) => one.kind === "other"); if (other) acts.give(other.name); },
};

document.addEventListener("keydown", (event) => {
  if (isOpen()) return;
  const typing = event.target.matches?.("input, select, textarea"), z = event.key.toLowerCase() === "z", y = event.key.toLowerCase() === "y";
  if (typing) return;
  if ((z || y) && !event.altKey) {
    event.preventDefault();
    step({ do: y || event.shiftKey ? "redo" : "undo" });
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Enter" && event.target.matches?.("button, summary, a")) return;
  const own = /^[1-9]$/.test(event.key) ? state.classes[Number(event.key) - 1] : null;
  const act = own?.kind === "new" ? () => acts.give(own.name) : KEYS[event.key] ?? KEYS[event.key.toLowerCase()];
  if (!act) return;
  event.preventDefault();
  act();
});

const click = (id, act) => byId(id).addEventListener("click", act);
click("undo", () => step({ do: "undo" }));
click("redo", () => step({ do: "redo" }));
click("add", newClass);
click("grow", () => growMenu(state, grow));
click("files", filesMenu);
click("review", review);
click("help", keysHelp);
click("fit", () => map.fit());
click("lasso", () => setLasso(!lassoing));
click("go", () => ask());
byId("by").addEventListener("change", () => ask());

// --- start ----------------------------------------------------------------------------------------------
async function start() {
  const bytes = await getBytes("/api/map"), n = new DataView(bytes).getUint32(0, true);
  map.setPoints(new Uint32Array(bytes, 4, n), new Float32Array(bytes, 4 + 4 * n, 2 * n));
  startSearch({ choose: (row) => { map.overlay.hits = []; look(row.id); }, found: (found) => { map.overlay.hits = found.map((row) => row.place); map.draw(); } });
  await refresh();
  if (state.described) byId("words").placeholder = "Find a node by id, words or meaning  ( / )";
  columns = await get("/api/columns");
  drawFilter();
  listen((version) => {
    byId("banner").hidden = true;
    if (version !== state.version && !busy) refresh().then(() => (asking ? null : renew())).catch(() => {});
  }, () => {
    byId("banner").textContent = "The server does not answer. Every step that was confirmed is kept; start `fewnode label` again to go on.";
    byId("banner").hidden = false;
  });
  document.documentElement.dataset.ready = "true";
}

start().catch((error) => {
  byId("banner").textContent = `The page could not start: ${error.message}`;
  byId("banner").hidden = false;
});
