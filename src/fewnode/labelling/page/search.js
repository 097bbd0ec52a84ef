// Search while typing; arrows and Enter choose.
import { byId, el, user } from "./dom.js";
import { get } from "./api.js";

export function startSearch({ choose, found }) {
  const input = byId("words"), list = byId("hits");
  let rows = [], at = -1, shown = "", running = false, hurry = false, timer = 0;
  const close = () => { list.hidden = true; input.setAttribute("aria-expanded", "false"); at = -1; };
  const mark = (next) => {
    at = (next + rows.length) % rows.length;
    [...list.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === at)));
    input.setAttribute("aria-activedescendant", `hit${at}`);
    list.children[at]?.scrollIntoView({ block: "nearest" });
  };
  const take = (i) => {
    const row = rows[i];
    close();
    if (!row) return;
    input.value = "";
    choose(row);
  };
  const draw = () => {
    const items = rows.map((row, i) => el("li", { id: `hit${i}`, role: "option", "aria-selected": "false", onmousedown: (event) => { event.preventDefault(); take(i); } },
      user(row.title || row.name), row.title ? el("span", { class: "quiet user" }, ` ${row.name}`) : "", el("span", { class: "about user" }, row.about)));
    list.replaceChildren(...(items.length ? items : [el("li", { class: "quiet" }, "Nothing found. Try fewer letters: ids and all columns are searched.")]));
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    if (rows.length) mark(0);
  };
  const wait = () => { list.replaceChildren(el("li", { class: "quiet" }, "Looking…")); list.hidden = false; };
  const ask = async () => { // one question at a time: what was typed meanwhile is asked next
    if (running) return;
    running = true;
    try {
      let words;
      do {
        words = input.value.trim();
        if (words && document.activeElement === input && list.hidden) wait();
        rows = words ? await get(`/api/search?q=${encodeURIComponent(words)}`) : [];
      } while (words !== input.value.trim());
      shown = words;
      found(rows);
      if (hurry) { take(0); input.blur(); } else if (words && document.activeElement === input) draw(); else close();
    } finally { running = hurry = false; }
  };
  input.addEventListener("input", () => { hurry = false; clearTimeout(timer); timer = setTimeout(ask, 120); });
  input.addEventListener("focus", () => { if (input.value) ask(); });
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" && rows.length) mark(at + 1);
    else if (event.key === "ArrowUp" && rows.length) mark(at - 1);
    else if (event.key === "Enter") {
      if (shown !== input.value.trim()) { hurry = true; clearTimeout(timer); ask(); } else { take(Math.max(at, 0)); input.blur(); } // Enter may be faster than the answer
    }
    else if (event.key === "Escape") { if (list.hidden) input.blur(); close(); }
    else return;
    event.preventDefault();
  });
}
