// Hands on the picture: pointer, wheel, pinch, keys, filters, and the table of what is around.
const tip = document.getElementById("tip"), live = document.getElementById("live");
const rowsOut = document.getElementById("rows"), box = canvas.parentElement;

function setView(from, to) {
  const least = 20, length = Math.min(Math.max(to - from, least), end);
  const start = Math.min(Math.max(from + (to - from - length) / 2, 0), end - length);
  view.from = start;
  view.to = start + length;
  redraw();
}

function zoom(factor, around = (view.from + view.to) / 2) {
  setView(around - (around - view.from) * factor, around + (view.to - around) * factor);
}

const pan = (share) => setView(view.from + (view.to - view.from) * share, view.to + (view.to - view.from) * share);

// How far a point is from something drawn; `slack` is what a finger may be beside it.
function distance(hit, px, py, slack) {
  if (hit.rect) {
    const [left, top, width, height] = hit.rect;
    return px >= left - 2 - slack && px <= left + width + 2 + slack && py >= top - slack / 2 && py <= top + height + slack / 2 ? (hit.faint ? 4 : 2) : 99;
  }
  if (hit.dot) {
    const gap = Math.hypot(px - hit.dot[0], py - hit.dot[1]);
    return gap <= hit.dot[2] + slack ? Math.min(gap, 1.5) : 99;
  }
  const [x1, y1, x2, y2] = hit.seg, dx = x2 - x1, dy = y2 - y1;
  const share = Math.min(1, Math.max(0, ((px - x1) * dx + (py - y1) * dy) / (dx * dx + dy * dy || 1)));
  const gap = Math.hypot(px - x1 - share * dx, py - y1 - share * dy);
  return gap <= 5 + slack ? gap + 0.5 : 99;
}

function hitAt(px, py, slack = 0) {
  let best = null, least = 99;
  for (const hit of hits) {
    const gap = distance(hit, px, py, slack);
    if (gap < least) { least = gap; best = hit; }
  }
  return best;
}

function showTip(words, px, py) {
  tip.replaceChildren(...words.map((word, at) => {
    const row = document.createElement(at ? "div" : "strong");
    row.textContent = word;
    return row;
  }));
  tip.hidden = false;
  const left = Math.min(Math.max(px + 14, 4), place.width - tip.offsetWidth - 4);
  const below = py + 18 + tip.offsetHeight < place.height;
  tip.style.left = Math.max(4, left) + "px";
  tip.style.top = Math.max(0, below ? py + 18 : py - tip.offsetHeight - 12) + "px";
}

function hideTip() {
  tip.hidden = true;
  if (hovered >= 0) { hovered = -1; redraw(); }
}

// Where a line is to be seen.
function spot(i) {
  if (data.kind[i] === K.violation) return [x(T[i]), 20];
  if (data.node[i]) return [x(T[i]), nodeY(data.node[i] - 1) + 22];
  const row = place.lanes.indexOf(data.partition[i] - 1);
  return [x(T[i]), row >= 0 ? laneY(row) + 18 : place.top];
}

function select(i, { tell = true, centre = false } = {}) {
  if (i < 0 || i >= count) return;
  selected = i;
  const length = view.to - view.from;
  if (centre || T[i] < view.from || T[i] > view.to) setView(T[i] - length / 2, T[i] + length / 2);
  redraw();
  table();
  const words = about(i);
  live.textContent = words.join(", ");
  if (tell) showTip(words, ...spot(i));
}

function goTo(i) {
  const length = Math.min(view.to - view.from, Math.max(end / 30, 20));
  setView(T[i] - length / 2, T[i] + length / 2);
  select(i, { centre: true });
  box.scrollIntoView({ block: "center", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
}

const AROUND = 12;
function table() {
  const list = [];
  const middle = selected >= 0 ? selected : next(-1, 1);
  for (let i = middle, left = AROUND; left > 0; left--) {
    i = next(i, -1);
    if (i < 0) break;
    list.unshift(i);
  }
  if (middle >= 0) list.push(middle);
  for (let i = middle; list.length < 2 * AROUND + 1;) {
    i = next(i, 1);
    if (i < 0) break;
    list.push(i);
  }
  rowsOut.replaceChildren(...list.map((i) => {
    const row = document.createElement("tr");
    row.className = "k-" + KIND[data.kind[i]] + (i === selected ? " is-selected" : "");
    const cells = [N[i], instant(T[i]), KIND[data.kind[i]], data.names[data.name[i]], nodeName(data.node[i]),
      nodeName(data.peer[i]), partitionName(data.partition[i]), data.bytes[i] ? bytes(data.bytes[i]) : "", textOf(i)];
    cells.forEach((words, at) => {
      const cell = document.createElement("td");
      if (at === 0) {
        const button = document.createElement("button");
        button.type = "button";
        button.textContent = words;
        button.title = "Show line " + words + " in the timeline";
        cell.append(button);
      } else cell.textContent = words;
      row.append(cell);
    });
    row.addEventListener("click", () => select(i));
    return row;
  }));
}

const pointers = new Map();
let pressed = null;
const inBox = (event) => {
  const rect = canvas.getBoundingClientRect();
  return [event.clientX - rect.left, event.clientY - rect.top];
};
canvas.addEventListener("pointerdown", (event) => {
  pointers.set(event.pointerId, inBox(event));
  canvas.setPointerCapture(event.pointerId);
  pressed = { at: inBox(event), from: view.from, to: view.to, moved: pointers.size > 1, gap: 0 };
  if (pointers.size === 2) {
    const [[ax], [bx]] = pointers.values();
    pressed.gap = Math.abs(ax - bx) || 1;
    pressed.around = timeAt((ax + bx) / 2);
  }
});
canvas.addEventListener("pointermove", (event) => {
  const [px, py] = inBox(event);
  if (!pointers.has(event.pointerId)) {
    const hit = hitAt(px, py);
    if (!hit) return hideTip();
    hovered = hit.line ?? -1;
    showTip(hit.words ?? about(hit.line), px, py);
    return redraw();
  }
  pointers.set(event.pointerId, [px, py]);
  const length = pressed.to - pressed.from;
  if (pointers.size === 2) {
    const [[ax], [bx]] = pointers.values();
    const factor = pressed.gap / Math.max(8, Math.abs(ax - bx));
    setView(pressed.around - (pressed.around - pressed.from) * factor, pressed.around + (pressed.to - pressed.around) * factor);
  } else if (pressed.moved || Math.abs(px - pressed.at[0]) > 4) {
    pressed.moved = true;
    const by = ((pressed.at[0] - px) / (place.width - place.gutter - place.right)) * length;
    setView(pressed.from + by, pressed.to + by);
    hideTip();
  }
});
const release = (event) => {
  const wasThere = pointers.delete(event.pointerId);
  if (event.type === "pointerup" && wasThere && pressed && !pressed.moved) {
    const [px, py] = inBox(event), hit = hitAt(px, py, event.pointerType === "mouse" ? 0 : 9);
    if (hit) {
      if ((hit.line ?? -1) >= 0) select(hit.line, { tell: false });
      showTip(hit.words ?? about(hit.line), px, py);
    } else {
      const near = Math.min(count - 1, lineAt(timeAt(px)));
      if (count) select(passes(near) ? near : Math.max(next(near, 1), next(near, -1)));
    }
  }
  if (pointers.size === 1) pressed = { at: [...pointers.values()][0], from: view.from, to: view.to, moved: true };
};
canvas.addEventListener("pointerup", release);
canvas.addEventListener("pointercancel", release);
canvas.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") hideTip(); });
canvas.addEventListener("wheel", (event) => {
  const asks = event.ctrlKey || event.metaKey || document.activeElement === canvas;
  const isFlat = Math.abs(event.deltaX) > Math.abs(event.deltaY);
  if (!asks && !isFlat) return;
  event.preventDefault();
  if (isFlat || event.shiftKey) pan((event.deltaX || event.deltaY) / 800);
  else zoom(Math.exp(event.deltaY / 400), timeAt(inBox(event)[0]));
}, { passive: false });
canvas.addEventListener("dblclick", (event) => zoom(0.4, timeAt(inBox(event)[0])));

const near = () => (selected >= 0 ? selected : lineAt(view.from) - 1);
const keys = {
  ArrowRight: () => select(next(near(), 1)),
  ArrowLeft: () => select(next(Math.max(near(), 0), -1)),
  PageDown: () => pan(0.8),
  PageUp: () => pan(-0.8),
  Home: () => select(next(-1, 1)),
  End: () => select(next(count, -1)),
  Escape: () => { selected = -1; hideTip(); redraw(); table(); },
  Enter: () => selected >= 0 && partner[selected] >= 0 && select(partner[selected]),
  "+": () => zoom(0.6, selected >= 0 ? T[selected] : undefined),
  "=": () => zoom(0.6, selected >= 0 ? T[selected] : undefined),
  "-": () => zoom(1 / 0.6, selected >= 0 ? T[selected] : undefined),
  0: () => setView(0, end),
  v: () => {
    for (let i = selected + 1; i < count; i++) if (data.kind[i] === K.violation) return select(i);
    for (let i = 0; i < count; i++) if (data.kind[i] === K.violation) return select(i);
  },
};
canvas.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
});

const drag = (event) => {
  if (event.type === "pointermove" && !overview.hasPointerCapture(event.pointerId)) return;
  if (event.type === "pointerdown") overview.setPointerCapture(event.pointerId);
  const px = event.clientX - overview.getBoundingClientRect().left;
  const time = ((px - place.gutter) / (place.width - place.gutter - place.right)) * end, half = (view.to - view.from) / 2;
  setView(time - half, time + half);
};
overview.addEventListener("pointerdown", drag);
overview.addEventListener("pointermove", drag);

for (const [id, act] of [["zoom-in", () => zoom(0.5)], ["zoom-out", () => zoom(2)], ["zoom-all", () => setView(0, end)],
  ["pan-left", () => pan(-0.5)], ["pan-right", () => pan(0.5)]]) {
  document.getElementById(id).addEventListener("click", act);
}

const filtersChanged = () => { hideTip(); layout(); redraw(); table(); };
const chips = document.getElementById("chips");
GROUPS.forEach(([words, name], number) => {
  if (!present[number]) return;
  const label = document.createElement("label"), input = document.createElement("input");
  input.type = "checkbox";
  input.checked = filter.groups[number];
  input.addEventListener("change", () => { filter.groups[number] = input.checked; filtersChanged(); });
  label.className = "chip g-" + name;
  label.append(input, words);
  chips.append(label);
});
for (const [id, key, names] of [["of-node", "node", data.nodes], ["of-partition", "partition", data.partitions]]) {
  const input = document.getElementById(id);
  names.forEach((name, at) => input.append(new Option(name, at + 1)));
  input.addEventListener("change", () => { filter[key] = Number(input.value); filtersChanged(); });
}
document.getElementById("of-word").addEventListener("input", (event) => { setWord(event.target.value); filtersChanged(); });

for (const link of document.querySelectorAll("[data-line]")) {
  link.addEventListener("click", (event) => {
    event.preventDefault();
    goTo(Number(link.dataset.line) - 1);
    canvas.focus({ preventScroll: true });
  });
}

document.documentElement.classList.add("has-script");
document.getElementById("filters").open = box.clientWidth >= 600;
colours();
layout();
draw();
selected = data.kind.indexOf(K.violation);
table();
redraw();
new ResizeObserver(() => { if (place.width !== box.clientWidth) { layout(); redraw(); } }).observe(box);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { colours(); redraw(); });
