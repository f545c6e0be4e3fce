// The picture: what is in view is drawn anew whenever the view, the filters or the colours change.
const canvas = document.getElementById("canvas"), pen = canvas.getContext("2d");
const overview = document.getElementById("overview"), small = overview.getContext("2d");
const view = { from: 0, to: end };
const place = { width: 0, height: 0, gutter: 92, right: 12, top: 40, node: 50, partition: 36, lanes: [], sub: "" };
const MESSAGES_MAX = 2500, LANES_MAX = 40;
const icons = data.icons.map(([name, path]) => [name, new Path2D(path)]);
let hits = [], selected = -1, hovered = -1, ink = {};

function colours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["ink", "soft", "line", "card", "grid", "up", "paused", "lead", "ack", "read", "fault",
    "bad", "ice", "ice-back", "locate", "catch-up", "prepare", "drain", "verify", "install", "flip", "promote",
    "waiting", "raft", "call", "move", "records", "own0", "own1", "own2", "own3", "own4", "own5"]) {
    ink[name] = style.getPropertyValue("--" + name).trim();
  }
}

const x = (time) => place.gutter + ((time - view.from) / (view.to - view.from)) * (place.width - place.gutter - place.right);
const timeAt = (px) => view.from + ((px - place.gutter) / (place.width - place.gutter - place.right)) * (view.to - view.from);
const nodeY = (node) => place.top + node * place.node;
const laneY = (row) => place.top + data.nodes.length * place.node + 6 + row * place.partition;

// Lanes of partitions: the one that is asked for, or all, or those that have something to tell.
function chooseLanes() {
  let lanes = data.partitions.map((_, partition) => partition);
  place.sub = "";
  if (filter.partition) {
    lanes = [filter.partition - 1];
  } else if (lanes.length > LANES_MAX) {
    const weight = new Float64Array(lanes.length);
    for (const [partition] of data.phases) weight[partition] += 1;
    for (const [partition] of data.freezes) weight[partition] += 10;
    for (let i = 0; i < count; i++) if (data.kind[i] === K.violation && data.partition[i]) weight[data.partition[i] - 1] += 1000;
    lanes.sort((a, b) => weight[b] - weight[a] || a - b);
    place.sub = (lanes.length - LANES_MAX) + " partitions have no lane: choose one in the filter";
    lanes = lanes.slice(0, LANES_MAX).sort((a, b) => a - b);
  }
  place.lanes = lanes;
}

function layout() {
  chooseLanes();
  place.width = canvas.parentElement.clientWidth;
  place.gutter = place.width < 600 ? 62 : 96;
  place.height = laneY(place.lanes.length) + 6;
  for (const [element, context, height] of [[canvas, pen, place.height], [overview, small, 44]]) {
    const ratio = window.devicePixelRatio || 1;
    element.width = Math.round(place.width * ratio);
    element.height = Math.round(height * ratio);
    element.style.height = height + "px";
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
  }
}

function niceStep(span, most) {
  const power = 10 ** Math.floor(Math.log10(span / most));
  return [1, 2, 5, 10].map((lead) => lead * power).find((step) => span / step <= most);
}

function axis() {
  const step = niceStep(view.to - view.from, Math.max(3, Math.floor(place.width / 110)));
  const places = Math.min(6, Math.max(0, -Math.floor(Math.log10(step / 1e6) + 1e-9)));
  pen.textAlign = "center";
  pen.font = "12px system-ui, sans-serif";
  for (let time = Math.ceil(view.from / step) * step; time <= view.to; time += step) {
    pen.strokeStyle = ink.grid;
    pen.beginPath();
    pen.moveTo(Math.round(x(time)) + 0.5, place.top - 6);
    pen.lineTo(Math.round(x(time)) + 0.5, place.height);
    pen.stroke();
    pen.fillStyle = ink.soft;
    pen.fillText((time / 1e6).toFixed(places) + " s", x(time), place.top - 12);
  }
}

function bar(from, to, y, height, fill, hit, least = 1) {
  if (to < view.from || from > view.to) return 0;
  const left = Math.max(x(from), place.gutter), width = Math.max(Math.min(x(to), place.width - place.right) - left, least);
  pen.fillStyle = fill;
  pen.fillRect(left, y, width, height);
  if (hit) hits.push({ rect: [left, y, width, height], ...hit });
  return width;
}

function lanes() {
  pen.textAlign = "left";
  const label = (name, y, font) => {
    pen.font = font;
    pen.fillStyle = ink.ink;
    const most = place.gutter - 8;
    let shown = name;
    while (pen.measureText(shown).width > most && shown.length > 2) shown = shown.slice(0, -2) + "…";
    pen.fillText(shown, 2, y);
  };
  const rule = (y) => {
    pen.fillStyle = ink.grid;
    pen.fillRect(0, y, place.width, 1);
  };
  data.nodes.forEach((name, node) => {
    label(name, nodeY(node) + 26, "600 13px system-ui, sans-serif");
    rule(nodeY(node) + place.node - 1);
  });
  place.lanes.forEach((partition, row) => {
    label(data.partitions[partition], laneY(row) + 21, "12px system-ui, sans-serif");
    rule(laneY(row) + place.partition - 1);
  });
}

function lives() {
  for (const [node, from, to, state] of data.lives) {
    const y = nodeY(node) + 20;
    const words = [data.nodes[node] + " " + ["up", "paused", "down"][state], instant(from) + " to " + instant(to), duration(to - from)];
    if (state === 0) bar(from, to, y, 4, ink.up, { words });
    else if (state === 1) for (let part = 0; part < 3; part++) bar(from, to, y - 2 + part * 3, 2, ink.paused, { words });
    else {
      pen.setLineDash([2, 5]);
      pen.strokeStyle = ink.fault;
      pen.beginPath();
      pen.moveTo(Math.max(x(from), place.gutter), y + 2.5);
      pen.lineTo(Math.min(Math.max(x(to), place.gutter), place.width - place.right), y + 2.5);
      if (to >= view.from && from <= view.to) pen.stroke();
      pen.setLineDash([]);
      bar(from, to, y - 4, 12, "transparent", { words });
    }
  }
  for (const [node, from, to] of data.leaders) {
    bar(from, to, nodeY(node) + 14, 4, ink.lead, { words: [data.nodes[node] + " takes itself for the leader", instant(from) + " to " + instant(to), duration(to - from)] }, 2);
  }
}

function moves() {
  const row = new Map(place.lanes.map((partition, at) => [partition, at]));
  const wanted = filter.groups[G.phase];
  for (const [partition, node, from, to, epoch, line] of data.reigns) {
    if (!row.has(partition)) continue;
    const words = [data.partitions[partition] + " is owned by " + data.nodes[node] + (epoch >= 0 ? ", epoch " + epoch : ""), instant(from) + " to " + instant(to)];
    const y = laneY(row.get(partition)) + 2;
    const width = bar(from, to, y, 11, ink["own" + (node % 6)], { words, line: line - 1 });
    const name = data.nodes[node] + (epoch >= 0 ? "  e" + epoch : "");
    pen.font = "10px system-ui, sans-serif";
    if (width > pen.measureText(name).width + 8) {
      pen.fillStyle = ink.ink;
      pen.fillText(name, Math.max(x(from), place.gutter) + 4, y + 9);
    }
  }
  if (!wanted) return;
  for (const [partition, node, from, to, phase, line] of data.phases) {
    if (!row.has(partition) || (filter.node && filter.node - 1 !== node)) continue;
    const words = [phase + " · " + data.partitions[partition] + " to " + data.nodes[node], instant(from) + " to " + instant(to), duration(to - from)];
    const key = phase === "resolve" ? "locate" : ink[phase] ? phase : "waiting";
    const width = bar(from, to, laneY(row.get(partition)) + 14, 11, ink[key], { words, line: line - 1 });
    pen.font = "10px system-ui, sans-serif";
    if (width > pen.measureText(phase).width + 6 && key !== "waiting") {
      pen.fillStyle = "#111";
      pen.fillText(phase, Math.max(x(from), place.gutter) + 3, laneY(row.get(partition)) + 23);
    }
  }
  for (const [partition, node, from, to, line] of data.freezes) {
    if (!row.has(partition)) continue;
    const y = laneY(row.get(partition)) + 26;
    const words = [data.partitions[partition] + " frozen at " + data.nodes[node], instant(from) + " to " + instant(to), duration(to - from)];
    const width = bar(from, to, y, 7, ink["ice-back"], { words, line: line - 1 }, 2);
    pen.fillStyle = ink.ice;
    for (let at = 0; at < width; at += 6) pen.fillRect(Math.max(x(from), place.gutter) + at, y, Math.min(3, width - at), 7);
  }
}

// Messages as thin lines; when there are too many, an even share of them.
function wires() {
  const shown = [];
  for (const message of messages) {
    const [sent, last] = message;
    if (T[sent] > view.to) break;
    if (T[last < 0 ? sent : last] < view.from || data.node[sent] === data.peer[sent] || !data.node[sent] || !data.peer[sent]) continue;
    if (passes(sent)) shown.push(message);
  }
  const stride = Math.max(1, Math.ceil(shown.length / MESSAGES_MAX));
  const dense = shown.length / stride / place.width;
  pen.lineWidth = 1;
  for (let at = 0; at < shown.length; at += stride) {
    const [sent, last] = shown[at];
    const from = nodeY(data.node[sent] - 1) + 22, to = nodeY(data.peer[sent] - 1) + 22;
    const isLost = last >= 0 && data.kind[last] === K.drop;
    // One that was not seen again is a stub: nobody knows how far it came.
    const x1 = x(T[sent]), x2 = last < 0 ? x1 + 5 : x(T[last]), y2 = last < 0 ? from + (to - from) / 4 : isLost ? (from + to) / 2 : to;
    pen.strokeStyle = isLost ? ink.bad : [ink.raft, ink.raft, ink.move, ink.call, ink.records][group[sent]];
    pen.globalAlpha = Math.min(1, Math.max(0.12, (isLost ? 0.8 : 0.6) / Math.max(1, dense * 1.5)));
    if (isLost || last < 0) pen.setLineDash([3, 3]);
    pen.beginPath();
    pen.moveTo(x1, from);
    pen.lineTo(x2, y2);
    pen.stroke();
    pen.setLineDash([]);
    if (isLost) {
      pen.beginPath();
      pen.moveTo(x2 - 3, y2 - 3); pen.lineTo(x2 + 3, y2 + 3);
      pen.moveTo(x2 - 3, y2 + 3); pen.lineTo(x2 + 3, y2 - 3);
      pen.stroke();
    }
    hits.push({ seg: [x1, from, x2, y2], line: sent });
  }
  pen.globalAlpha = 1;
  return [Math.ceil(shown.length / stride), shown.length];
}

// Small marks in the lanes, at most one of a kind a pixel, and how dense acks and reads are.
function marks() {
  const columns = new Float64Array(2 * data.nodes.length * (Math.ceil(place.width) + 1));
  const stride = Math.ceil(place.width) + 1, seen = new Set();
  const late = [];
  let most = 1, shown = 0;
  for (let i = lineAt(view.from), last = lineAt(view.to + 1); i < last; i++) {
    const kind = data.kind[i];
    if (!passes(i)) continue;
    shown++;
    const node = data.node[i] - 1, at = x(T[i]);
    if (kind === K.ack || kind === K.read) {
      if (node >= 0) {
        const sum = ++columns[(2 * node + (kind === K.read ? 1 : 0)) * stride + Math.round(at)];
        if (sum > most) most = sum;
      }
    } else if (kind === K.fault || kind === K.step || kind === K.violation) late.push(i);
    else if (node >= 0 && (kind === K.effect || kind === K.done || kind === K.applied || kind === K.note)) {
      const key = (node * 16 + kind) * 65536 + Math.round(at);
      if (seen.has(key)) continue;
      seen.add(key);
      const y = nodeY(node);
      pen.fillStyle = kind === K.note ? ink.lead : kind === K.applied ? ink.install : ink.soft;
      if (kind === K.note || kind === K.applied) {
        pen.beginPath();
        pen.arc(at, y + (kind === K.note ? 8 : 28), 2, 0, 7);
        pen.fill();
        hits.push({ dot: [at, y + (kind === K.note ? 8 : 28), 5], line: i });
      } else {
        pen.globalAlpha = 0.55;
        pen.fillRect(at, y + (kind === K.effect ? 24 : 27), 1, 3);
        pen.globalAlpha = 1;
        hits.push({ dot: [at, y + 27, 3], line: i });
      }
    }
  }
  for (let node = 0; node < data.nodes.length; node++) for (let row = 0; row < 2; row++) {
    pen.fillStyle = row ? ink.read : ink.ack;
    for (let px = place.gutter; px < stride; px++) {
      const sum = columns[(2 * node + row) * stride + px];
      if (!sum) continue;
      pen.globalAlpha = 0.25 + 0.75 * Math.sqrt(sum / most);
      pen.fillRect(px, nodeY(node) + 32 + 7 * row, Math.max(1, Math.min(3, 900 / shown)), 6);
    }
    pen.globalAlpha = 1;
  }
  cursor();
  const last = new Float64Array(data.nodes.length + 1).fill(-99);
  late.forEach((i) => mark(i, last));
  return shown;
}

// Marks that would lie on one another stand side by side.
function mark(i, last) {
  const node = data.node[i] - 1, kind = data.kind[i];
  let at = x(T[i]);
  if (kind === K.violation) {
    pen.fillStyle = pen.strokeStyle = ink.bad;
    const flag = at + 30 > place.width - place.right ? at - 28 : at;
    pen.fillRect(at - 1, 4, 2, place.height);
    pen.fillRect(flag, 4, 28, 16);
    pen.fillStyle = ink.card;
    pen.font = "700 11px system-ui, sans-serif";
    pen.fillText(data.names[data.name[i]].slice(0, 4), flag + 4, 16);
    hits.unshift({ rect: [flag - 2, 2, 32, 20], line: i }, { rect: [at - 3, 20, 6, place.height], line: i, faint: true });
    return;
  }
  const y = node >= 0 ? nodeY(node) + 8 : place.top - 4;
  if (at - last[node + 1] < 10) at = last[node + 1] + 10;
  last[node + 1] = at;
  const [name, path] = icons[kind === K.step ? icons.length - 1 : data.name_icons[data.name[i]]];
  pen.save();
  pen.translate(at, y);
  pen.strokeStyle = pen.fillStyle = kind === K.step ? ink.soft : name === "up" || name === "heal" ? ink.flip : ink.fault;
  pen.lineWidth = 1.8;
  if (name === "up" || name === "other") pen.fill(path); else pen.stroke(path);
  pen.restore();
  hits.unshift({ dot: [at, y, 8], line: i });
}

function cursor() {
  for (const [i, alpha] of [[selected, 0.9], [hovered, 0.4]]) {
    if (i < 0 || T[i] < view.from || T[i] > view.to) continue;
    pen.globalAlpha = alpha;
    pen.fillStyle = ink.ink;
    pen.fillRect(Math.round(x(T[i])), place.top - 8, 1, place.height);
    pen.globalAlpha = 1;
  }
}

function draw() {
  hits = [];
  pen.clearRect(0, 0, place.width, place.height);
  pen.fillStyle = ink.card;
  pen.fillRect(0, 0, place.width, place.height);
  axis();
  lanes();
  pen.save();
  pen.beginPath();
  pen.rect(place.gutter - 1, 0, place.width - place.gutter - place.right + 2, place.height);
  pen.clip();
  const [drawn, all] = wires();
  lives();
  moves();
  const shown = marks();
  pen.restore();
  const notes = [instant(view.from) + " to " + instant(view.to) + " (" + duration(view.to - view.from) + ")", shown.toLocaleString("en") + " events in view"];
  notes.push(drawn < all ? "1 message in " + Math.ceil(all / drawn) + " drawn of " + all.toLocaleString("en") + ": zoom in for the rest" : all.toLocaleString("en") + " messages");
  const off = GROUPS.filter((_, number) => present[number] && !filter.groups[number]).map(([words]) => words);
  if (off.length) notes.push("switched off: " + off.join(", "));
  if (place.sub) notes.push(place.sub);
  document.getElementById("status").textContent = notes.join(" · ");
  drawOverview();
}

let heights = null;
function drawOverview() {
  const width = place.width - place.gutter - place.right;
  if (!heights || heights.length !== Math.ceil(width)) {
    heights = new Float64Array(Math.max(1, Math.ceil(width)));
    for (let i = 0; i < count; i++) if (data.kind[i] !== K.wake) heights[Math.min(heights.length - 1, Math.floor((T[i] / end) * heights.length))]++;
  }
  const most = heights.reduce((a, b) => Math.max(a, b), 1);
  small.clearRect(0, 0, place.width, 44);
  small.fillStyle = ink.soft;
  small.globalAlpha = 0.5;
  heights.forEach((sum, px) => small.fillRect(place.gutter + px, 40 - 32 * Math.sqrt(sum / most), 1, 32 * Math.sqrt(sum / most)));
  small.globalAlpha = 1;
  small.fillStyle = ink.bad;
  for (let i = 0; i < count; i++) if (data.kind[i] === K.violation) small.fillRect(place.gutter + (T[i] / end) * width - 1, 2, 3, 38);
  const left = place.gutter + (view.from / end) * width, right = place.gutter + (view.to / end) * width;
  small.fillStyle = ink.lead;
  small.globalAlpha = 0.16;
  small.fillRect(left, 2, Math.max(3, right - left), 40);
  small.globalAlpha = 1;
  small.strokeStyle = ink.lead;
  small.strokeRect(left + 0.5, 2.5, Math.max(3, right - left) - 1, 39);
}

let isDue = false;
function redraw() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => { isDue = false; draw(); });
}
