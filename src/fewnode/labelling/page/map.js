// The map: points by WebGL, marks (selection, examples, lasso) on a second canvas above.
import { colourOf, paper, rgb, shapeOf, dark } from "./colours.js";

const MOST = 1024; // classes with a colour of their own in the table the graphics card reads
const VERTEX = `#version 300 es
in vec2 place; in float kind; in float sure; in float label;
uniform vec2 centre; uniform vec2 zoom; uniform float size; uniform float lit; uniform sampler2D colours;
out vec3 colour; out float shape;
uniform vec3 ground;
void main() {
  vec4 own = texelFetch(colours, ivec2(int(kind) + 1, 0), 0);
  vec4 how = texelFetch(colours, ivec2(int(kind) + 1, 1), 0);
  float visible = own.a;
  float chosen = lit < -1.5 || lit == kind ? 1.0 : 0.12;
  float strength = (label > 0.5 ? 1.0 : 0.16 + 0.84 * sure * sure) * chosen;
  colour = mix(ground, own.rgb, strength);
  shape = floor(how.g * 255.0 + 0.5);
  float front = how.r * 0.5 + strength * 0.2;
  gl_Position = visible < 0.5 ? vec4(2.0, 2.0, 2.0, 1.0) : vec4((place - centre) * zoom, 0.8 - front, 1.0);
  gl_PointSize = size * (0.8 + how.r * 0.6);
}`;
const FRAGMENT = `#version 300 es
precision mediump float;
in vec3 colour; in float shape; out vec4 made;
void main() {
  vec2 at = gl_PointCoord * 2.0 - 1.0;
  bool outside = shape < 0.5 ? dot(at, at) > 1.0
    : shape < 1.5 ? max(abs(at.x), abs(at.y)) > 0.85
    : shape < 2.5 ? (at.y > 0.85 || abs(at.x) * 1.7 > at.y + 0.95)
    : abs(at.x) + abs(at.y) > 1.0;
  if (outside) discard;
  made = vec4(colour, 1.0);
}`;

export class PointMap {
  constructor(points, marks) {
    this.canvas = points;
    this.marks = marks.getContext("2d");
    this.n = 0;
    this.view = { x: 0.5, y: 0.5, zoom: 1 };
    this.lit = -2;
    this.hidden = new Set();
    this.classes = [];
    this.overlay = { selected: [], hits: [], examples: [], line: null, asked: null, hover: null };
    this.frames = []; // milliseconds of each while the map moves
    this.part = 1;
    this._startGl();
    new ResizeObserver(() => this._resize()).observe(points);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolour());
  }

  _startGl() {
    const gl = this.canvas.getContext("webgl2", { antialias: false, alpha: false, powerPreference: "high-performance" });
    this.gl = gl;
    if (!gl) { this.flat = this.canvas.getContext("2d"); return; }
    this.canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
    this.canvas.addEventListener("webglcontextrestored", () => { this._program(); this._upload(); this.recolour(); });
    this._program();
  }

  _program() {
    const gl = this.gl, program = gl.createProgram();
    for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    gl.useProgram(program);
    this.uniform = Object.fromEntries(["centre", "zoom", "size", "lit", "colours", "ground"].map((name) => [name, gl.getUniformLocation(program, name)]));
    this.buffers = {};
    for (const name of ["place", "kind", "sure", "label"]) {
      const at = gl.getAttribLocation(program, name);
      this.buffers[name] = { at, buffer: gl.createBuffer() };
      gl.enableVertexAttribArray(at);
    }
    gl.enable(gl.DEPTH_TEST);
    this.texture = gl.createTexture();
  }

  setPoints(ids, places) {
    this.ids = ids;
    this.places = places;
    this.n = ids.length;
    this.kind = new Int16Array(this.n).fill(-1);
    this.sure = new Uint8Array(this.n);
    this.label = new Uint8Array(this.n);
    this._index();
    this._upload();
    this.draw();
  }

  setScores(kind, sure, label) {
    Object.assign(this, { kind, sure, label });
    if (this.gl) this._uploadScores();
    this.draw();
  }

  _fill(name, data, size, type, normalised) {
    const gl = this.gl, { at, buffer } = this.buffers[name];
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
    gl.bufferData(gl.ARRAY_BUFFER, data, gl.DYNAMIC_DRAW);
    gl.vertexAttribPointer(at, size, type, normalised, 0, 0);
  }

  _upload() {
    if (!this.gl || !this.places) return;
    this._fill("place", this.places, 2, this.gl.FLOAT, false);
    this._uploadScores();
  }

  _uploadScores() {
    const gl = this.gl;
    this._fill("kind", this.kind, 1, gl.SHORT, false);
    this._fill("sure", this.sure, 1, gl.UNSIGNED_BYTE, true);
    this._fill("label", this.label, 1, gl.UNSIGNED_BYTE, false);
  }

  setClasses(classes) {
    this.classes = classes;
    this.recolour();
  }

  recolour() {
    const table = new Uint8Array(MOST * 2 * 4);
    for (let i = -1; i < Math.min(this.classes.length, MOST - 1); i++) {
      const at = (i + 1) * 4, own = this.classes[i]?.kind === "new";
      table.set([...rgb(colourOf(this.classes, i)), this.hidden.has(i) ? 0 : 255], at);
      table.set([own ? 255 : 0, shapeOf(this.classes, i), 0, 255], MOST * 4 + at);
    }
    if (this.gl) {
      const gl = this.gl;
      gl.bindTexture(gl.TEXTURE_2D, this.texture);
      gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, MOST, 2, 0, gl.RGBA, gl.UNSIGNED_BYTE, table);
      gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.NEAREST);
      gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.NEAREST);
    }
    this.draw();
  }

  // --- where things are ---------------------------------------------------------------------------------
  _resize() {
    const box = this.canvas.getBoundingClientRect(), ratio = Math.min(devicePixelRatio || 1, 2);
    this.width = box.width;
    this.height = box.height;
    for (const canvas of [this.canvas, this.marks.canvas]) {
      canvas.width = Math.max(1, Math.round(box.width * ratio));
      canvas.height = Math.max(1, Math.round(box.height * ratio));
    }
    this.ratio = ratio;
    this.draw();
  }

  get span() { return 0.94 * Math.min(this.width, this.height) * this.view.zoom; } // pixels of the unit square
  toScreen([x, y]) { return [(x - this.view.x) * this.span + this.width / 2, (this.view.y - y) * this.span + this.height / 2]; }
  toPlace([left, top]) { return [(left - this.width / 2) / this.span + this.view.x, this.view.y - (top - this.height / 2) / this.span]; }
  get middle() { return [this.width / 2, this.height / 2]; }

  move(dx, dy) { this.view.x -= dx / this.span; this.view.y += dy / this.span; this._keep(); }
  zoomAt(at, factor) {
    const before = this.toPlace(at);
    this.view.zoom = Math.min(400, Math.max(0.8, this.view.zoom * factor));
    const after = this.toPlace(at);
    this.view.x += before[0] - after[0];
    this.view.y += before[1] - after[1];
    this._keep();
  }
  fit() { this.view = { x: 0.5, y: 0.5, zoom: 1 }; this.draw(); }
  show(place) {
    const edge = 45, beyond = (at, size) => (at < edge ? edge - at : at > size - edge ? size - edge - at : 0);
    const [left, top] = this.toScreen(place); // moved no further than needed: a map that jumps is lost
    this.move(beyond(left, this.width), beyond(top, this.height));
  }
  _keep() {
    this.view.x = Math.min(1.2, Math.max(-0.2, this.view.x));
    this.view.y = Math.min(1.2, Math.max(-0.2, this.view.y));
    this.draw(true);
  }

  _index() { // points by the cell of a grid they lie in
    const g = this.grid = 256, at = new Uint32Array(this.n), starts = new Uint32Array(g * g + 1);
    for (let i = 0; i < this.n; i++) starts[(at[i] = this._cell(this.places[2 * i], this.places[2 * i + 1])) + 1]++;
    for (let c = 0; c < g * g; c++) starts[c + 1] += starts[c];
    const next = starts.slice(), order = new Uint32Array(this.n);
    for (let i = 0; i < this.n; i++) order[next[at[i]]++] = i;
    this.cells = { starts, order };
  }
  _column(x) { return Math.min(this.grid - 1, Math.max(0, Math.floor(x * this.grid))); }
  _cell(x, y) { return this._column(y) * this.grid + this._column(x); }

  _within(x0, y0, x1, y1, each) {
    if (!this.cells) return;
    for (let row = this._column(y0); row <= this._column(y1); row++) {
      for (let column = this._column(x0); column <= this._column(x1); column++) {
        const cell = row * this.grid + column;
        for (let k = this.cells.starts[cell]; k < this.cells.starts[cell + 1]; k++) each(this.cells.order[k]);
      }
    }
  }

  nearest(at, reach = 12) { // the number of the point, -1 if there is none within reach
    const [x, y] = this.toPlace(at), r = reach / this.span;
    let best = -1, least = r * r;
    this._within(x - r, y - r, x + r, y + r, (i) => {
      if (this.hidden.has(this.kind[i])) return;
      const away = (this.places[2 * i] - x) ** 2 + (this.places[2 * i + 1] - y) ** 2;
      if (away <= least) { least = away; best = i; }
    });
    return best;
  }

  inside(line) { // numbers of the visible points inside a closed line of screen places
    const path = line.map((at) => this.toPlace(at)), xs = path.map((p) => p[0]), ys = path.map((p) => p[1]), found = [];
    this._within(Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys), (i) => {
      const x = this.places[2 * i], y = this.places[2 * i + 1];
      let odd = false;
      for (let a = 0, b = path.length - 1; a < path.length; b = a++) {
        const [ax, ay] = path[a], [bx, by] = path[b];
        if ((ay > y) !== (by > y) && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) odd = !odd;
      }
      if (odd && !this.hidden.has(this.kind[i])) found.push(i);
    });
    return found;
  }

  placeOf(i) { return [this.places[2 * i], this.places[2 * i + 1]]; }

  // --- drawing ------------------------------------------------------------------------------------------
  draw(moving = false) {
    this.moving = moving;
    if (this.waiting) return;
    this.waiting = requestAnimationFrame((now) => {
      this.waiting = 0;
      if (!this.width) return;
      this._pace(now);
      if (this.gl) this._drawGl(); else this._drawFlat();
      this._drawMarks();
    });
  }

  _pace(now) { // where drawing is slow, only a part of the points while the map moves, all of them when it rests
    const gap = now - (this.last ?? 0);
    this.last = now;
    clearTimeout(this.rest);
    if (!this.moving) { this.drawn = this.n; return; }
    if (gap < 1000 && gap > 36) this.part = Math.max(0.03, this.part * Math.max(0.4, 30 / gap));
    else if (gap < 24) this.part = Math.min(1, this.part * 1.2);
    this.drawn = Math.ceil(this.n * this.part);
    this.frames.push(gap);
    if (this.frames.length > 240) this.frames.shift();
    this.rest = setTimeout(() => this.draw(), 200);
  }

  get size() {
    const crowd = Math.sqrt((this.width * this.height) / Math.max(this.n, 1)); // pixels between points
    return Math.min(14, Math.max(2.4, crowd * 0.42) * Math.sqrt(this.view.zoom)) * this.ratio;
  }

  _drawGl() {
    const gl = this.gl, ground = paper().map((v) => v / 255), span = this.span;
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    gl.clearColor(...ground, 1);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    if (!this.n) return;
    gl.uniform2f(this.uniform.centre, this.view.x, this.view.y);
    gl.uniform2f(this.uniform.zoom, (2 * span) / this.width, (2 * span) / this.height);
    gl.uniform1f(this.uniform.size, this.size);
    gl.uniform1f(this.uniform.lit, this.lit);
    gl.uniform1i(this.uniform.colours, 0);
    gl.uniform3f(this.uniform.ground, ...ground);
    gl.drawArrays(gl.POINTS, 0, this.drawn);
  }

  _drawFlat() { // without WebGL: slower, but all is there
    const flat = this.flat, ground = paper(), size = this.size / 1.3;
    flat.fillStyle = `rgb(${ground})`;
    flat.fillRect(0, 0, this.canvas.width, this.canvas.height);
    for (const front of [false, true]) {
      for (let i = 0; i < this.drawn; i++) {
        const kind = this.kind[i];
        if ((this.classes[kind]?.kind === "new") !== front || this.hidden.has(kind)) continue;
        const [left, top] = this.toScreen(this.placeOf(i));
        if (left < 0 || top < 0 || left > this.width || top > this.height) continue;
        flat.globalAlpha = (this.label[i] ? 1 : 0.16 + 0.84 * (this.sure[i] / 255) ** 2) * (this.lit < -1 || this.lit === kind ? 1 : 0.12);
        flat.fillStyle = colourOf(this.classes, kind);
        flat.fillRect(left * this.ratio - size / 2, top * this.ratio - size / 2, size, size);
      }
    }
    flat.globalAlpha = 1;
  }

  _drawMarks() {
    const pen = this.marks, { selected, hits, examples, line, asked, hover } = this.overlay;
    const ink = dark() ? "#ffffff" : "#16181c", ground = `rgb(${paper()})`;
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    pen.clearRect(0, 0, this.width, this.height);
    const ring = (place, r, width, colour) => {
      const [x, y] = this.toScreen(place);
      pen.beginPath();
      pen.arc(x, y, r, 0, 7);
      pen.lineWidth = width + 2.5;
      pen.strokeStyle = ground;
      pen.stroke();
      pen.lineWidth = width;
      pen.strokeStyle = colour;
      pen.stroke();
      return [x, y];
    };
    for (const { place, index } of examples) {
      if (this.hidden.has(index)) continue;
      const [x, y] = this.toScreen(place);
      pen.beginPath();
      pen.arc(x, y, 5, 0, 7);
      pen.fillStyle = colourOf(this.classes, index);
      pen.fill();
      pen.lineWidth = 1.8;
      pen.strokeStyle = ink;
      pen.stroke();
    }
    for (const place of hits) ring(place, 8, 1.5, ink);
    for (const place of selected) ring(place, 7, 2, ink);
    if (hover) ring(hover, 7, 1.5, ink);
    if (asked) {
      const [x, y] = ring(asked, 13, 2.5, dark() ? "#ffb454" : "#b34700");
      pen.strokeStyle = dark() ? "#ffb454" : "#b34700";
      for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
        pen.beginPath();
        pen.moveTo(x + 13 * dx, y + 13 * dy);
        pen.lineTo(x + 22 * dx, y + 22 * dy);
        pen.stroke();
      }
    }
    this._drawNames(examples, ink, ground);
    if (line?.length > 1) {
      pen.beginPath();
      line.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
      pen.closePath();
      pen.setLineDash([6, 4]);
      pen.lineWidth = 2;
      pen.strokeStyle = ink;
      pen.stroke();
      pen.setLineDash([]);
    }
    if (document.activeElement === this.canvas) {
      const [x, y] = this.middle;
      pen.strokeStyle = ink;
      pen.lineWidth = 1;
      pen.strokeRect(x - 9, y - 9, 18, 18);
    }
  }

  _drawNames(examples, ink, ground) { // of your own classes, at the example in the middle
    const pen = this.marks, groups = new Map();
    for (const { place, index } of examples) {
      if (this.classes[index]?.kind === "new" && !this.hidden.has(index)) groups.set(index, [...(groups.get(index) ?? []), place]);
    }
    pen.font = "600 13px system-ui, 'DejaVu Sans', sans-serif";
    pen.textAlign = "center";
    for (const [index, places] of groups) {
      const middle = [0, 1].map((k) => places.map((p) => p[k]).sort((a, b) => a - b)[Math.floor(places.length / 2)]);
      const away = (place) => (place[0] - middle[0]) ** 2 + (place[1] - middle[1]) ** 2;
      const nearest = places.reduce((best, place) => (away(place) < away(best) ? place : best));
      const [x, y] = this.toScreen(nearest), name = this.classes[index].name.slice(0, 40);
      pen.lineWidth = 4;
      pen.lineJoin = "round";
      pen.strokeStyle = ground;
      pen.strokeText(name, x, y - 14);
      pen.fillStyle = ink;
      pen.fillText(name, x, y - 14);
    }
  }
}
