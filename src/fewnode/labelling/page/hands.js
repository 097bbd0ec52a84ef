// Pointer and keys on the map: drag, wheel, pinch, lasso, click.
export function handle(map, { pick, lasso, hover, isLasso }) {
  const canvas = map.canvas, down = new Map();
  let moved = 0, line = null;
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    canvas.setPointerCapture(event.pointerId);
    down.set(event.pointerId, at(event));
    moved = 0;
    line = down.size === 1 && (event.shiftKey || isLasso()) ? [at(event)] : null;
  });
  canvas.addEventListener("pointermove", (event) => {
    const now = at(event), before = down.get(event.pointerId);
    if (!before) { hover(map.nearest(now), now); return; }
    moved += Math.hypot(now[0] - before[0], now[1] - before[1]);
    if (line) {
      line.push(now);
      map.overlay.line = line;
      map.draw();
    } else if (down.size === 2) {
      const other = [...down.entries()].find(([id]) => id !== event.pointerId)[1];
      const far = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]) || 1;
      map.zoomAt([(now[0] + other[0]) / 2, (now[1] + other[1]) / 2], far(now, other) / far(before, other));
    } else if (moved > 3) map.move(now[0] - before[0], now[1] - before[1]);
    down.set(event.pointerId, now);
  });
  const up = (event) => {
    if (!down.delete(event.pointerId)) return;
    const drawn = line;
    line = map.overlay.line = null;
    if (drawn && drawn.length > 4) lasso(map.inside(drawn));
    else if (moved <= 4 && event.type === "pointerup") pick(map.nearest(at(event), event.pointerType === "touch" ? 22 : 12), event.ctrlKey || event.metaKey || event.shiftKey);
    map.draw();
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  canvas.addEventListener("pointerleave", () => hover(-1));
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    map.zoomAt(at(event), Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)));
  }, { passive: false });
  canvas.addEventListener("focus", () => map.draw());
  canvas.addEventListener("blur", () => map.draw());
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = 60, keys = {
      ArrowLeft: () => map.move(step, 0), ArrowRight: () => map.move(-step, 0),
      ArrowUp: () => map.move(0, step), ArrowDown: () => map.move(0, -step),
      "+": () => map.zoomAt(map.middle, 1.4), "=": () => map.zoomAt(map.middle, 1.4), "-": () => map.zoomAt(map.middle, 1 / 1.4),
      Enter: () => pick(map.nearest(map.middle, 80), false),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    event.stopPropagation();
    keys[event.key]();
  });
}
