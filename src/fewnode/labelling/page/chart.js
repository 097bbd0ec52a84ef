// Expected accuracy and the share of sure nodes by the number of answers.
import { percent, svg } from "./dom.js";

export function drawChart(place, points) {
  if (points.length < 2) { place.replaceChildren(); return; }
  const width = 240, height = 104, left = 38, right = 58, top = 8, bottom = 18;
  const most = points.at(-1).answers || 1, values = points.flatMap((one) => [one.expected, one.sure]);
  const low = Math.floor(Math.min(...values) * 10) / 10, high = Math.max(low + 0.1, Math.ceil(Math.max(...values) * 10) / 10);
  const x = (n) => left + (n / most) * (width - left - right);
  const y = (v) => top + ((high - v) / (high - low)) * (height - top - bottom);
  const line = (name) => svg("polyline", { class: name, points: points.map((one) => `${x(one.answers)},${y(one[name])}`).join(" ") });
  const text = (at, words, extra = {}) => {
    const made = svg("text", { x: at[0], y: at[1], ...extra });
    made.textContent = words;
    return made;
  };
  const last = points.at(-1);
  let names = [y(last.expected) + 4, y(last.sure) + 4];
  if (Math.abs(names[0] - names[1]) < 12) names = names[0] <= names[1] ? [names[0] - 4, names[0] + 9] : [names[1] + 9, names[1] - 4];
  const label = `Expected accuracy ${percent(points[0].expected)} at first, ${percent(last.expected)} after ${most} answers`;
  place.replaceChildren(svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
    ...[low, high].map((v) => svg("line", { class: "axis", x1: left, x2: width - right, y1: y(v), y2: y(v) })),
    ...[low, high].map((v) => text([left - 4, y(v) + 4], percent(v), { "text-anchor": "end" })),
    text([left, height - 4], "0"), text([width - right, height - 4], `${most} answers`, { "text-anchor": "end" }),
    line("sure"), line("expected"),
    text([width - right + 5, names[0]], "accuracy", { class: "expected-name" }), text([width - right + 5, names[1]], "sure", { class: "sure-name" })));
}
