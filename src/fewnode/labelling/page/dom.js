// Elements are made here and nowhere by text: what comes from a graph can only ever become text.
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "color") made.style.backgroundColor = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

// A long name without its middle: names of one family begin alike, and differ at the end.
export const short = (name, most) => (name.length <= most ? name : `${name.slice(0, Math.floor(most / 3))}…${name.slice(Math.floor(most / 3) + 1 - most)}`);
export const user = (text) => el("span", { class: "user" }, text);
export const byId = (id) => document.getElementById(id);
export const count = (n) => n.toLocaleString("en");
export const percent = (p, digits = 0) => `${(100 * p).toFixed(digits)} %`;

const NS = "http://www.w3.org/2000/svg";
export function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

let timer = 0;
export function toast(text, wrong = false) {
  const place = byId("toast");
  place.textContent = text;
  place.classList.toggle("wrong", wrong);
  place.hidden = false;
  clearTimeout(timer);
  timer = setTimeout(() => { place.hidden = true; }, wrong ? 7000 : 3000);
}
