// The kept lines in columns, what they add up to, and which of them the filters let through.
const data = JSON.parse(document.getElementById("data").textContent);
const KIND = data.kinds;
const K = Object.fromEntries(KIND.map((name, number) => [name, number]));
const count = data.t.length;
const T = new Float64Array(count), N = new Float64Array(count);
for (let i = 0, t = 0, n = 0; i < count; i++) {
  T[i] = t += data.t[i];
  N[i] = n += data.n[i];
}
const end = Math.max(data.end, 1);

// Groups that can be switched on and off: their numbers are the order of the chips.
const GROUPS = [
  ["Raft", "raft"], ["Raft heartbeats", "beat"], ["Moves", "move"], ["Calls", "call"],
  ["Records", "records"], ["Effects", "effect"], ["Applied", "applied"], ["Notes", "note"],
  ["Acks and reads", "ack"], ["Phases and freezes", "phase"], ["Faults and steps", "fault"],
  ["Wake-ups", "wake"],
];
const G = Object.fromEntries(GROUPS.map(([, name], number) => [name, number]));
const groupOfName = data.names.map((name) => {
  if (name.startsWith("raft-heartbeat")) return G.beat;
  if (name.startsWith("raft-")) return G.raft;
  if (["prepare", "renew", "release", "list", "copy"].includes(name.replace(/-answer$/, ""))) return G.move;
  if (["produce", "fetch", "ack"].includes(name.replace(/-answer$/, ""))) return G.records;
  return G.call;
});
const groupOfKind = {
  wake: G.wake, effect: G.effect, done: G.effect, applied: G.applied, note: G.note, ack: G.ack,
  read: G.ack, phase: G.phase, freeze: G.phase, fault: G.fault, step: G.fault,
};
const ALWAYS = 255;
const group = new Uint8Array(count);
for (let i = 0; i < count; i++) {
  const kind = data.kind[i];
  const isMessage = kind === K.send || kind === K.deliver || kind === K.drop;
  group[i] = isMessage ? groupOfName[data.name[i]] : groupOfKind[KIND[kind]] ?? ALWAYS;
}

// Messages: by the lines that sent them and that tell their end, -1 where none does.
const messages = [];
const partner = new Int32Array(count).fill(-1);
{
  const ended = new Uint8Array(count);
  for (let i = 0; i < count; i++) {
    const sent = data.of[i] - 1;
    if (sent < 0) continue;
    partner[i] = sent;
    if (partner[sent] < 0) partner[sent] = i;
    ended[sent] = 1;
    messages.push([sent, i]);
  }
  for (let i = 0; i < count; i++) if (data.kind[i] === K.send && !ended[i]) messages.push([i, -1]);
  messages.sort((a, b) => a[0] - b[0]);
}

// What would hide everything else is off at first: the status line says so.
const CROWD = 3000;
const present = new Float64Array(GROUPS.length);
for (let i = 0; i < count; i++) if (group[i] !== ALWAYS) present[group[i]]++;
const isOn = ([, name], number) => name !== "beat" && name !== "wake" && !((name === "raft" || name === "records") && present[number] > CROWD);
const filter = { groups: GROUPS.map(isOn), node: 0, partition: 0, word: "" };
let wordHits = null;

function setWord(word) {
  filter.word = word.trim().toLowerCase();
  wordHits = filter.word && {
    names: data.names.map((name) => name.toLowerCase().includes(filter.word)),
    texts: data.texts.map((text) => text.toLowerCase().includes(filter.word)),
  };
}

function passes(i) {
  const g = group[i];
  if (g !== ALWAYS && !filter.groups[g]) return false;
  if (filter.node && data.node[i] !== filter.node && data.peer[i] !== filter.node) return false;
  if (filter.partition && data.partition[i] !== filter.partition) return false;
  if (wordHits && !wordHits.names[data.name[i]] && !(data.text[i] && wordHits.texts[data.text[i] - 1])) return false;
  return true;
}

// Place of the first line at that time or later.
function lineAt(time) {
  let low = 0, high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (T[middle] < time) low = middle + 1; else high = middle;
  }
  return low;
}

// The next line in that direction that the filters let through, or -1.
function next(from, step) {
  for (let i = from + step; i >= 0 && i < count; i += step) if (passes(i)) return i;
  return -1;
}

const nodeName = (number) => (number ? data.nodes[number - 1] : "");
const partitionName = (number) => (number ? data.partitions[number - 1] : "");
const textOf = (i) => (data.text[i] ? data.texts[data.text[i] - 1] : "");

function instant(us) {
  const whole = Math.floor(us / 1e6);
  return whole.toLocaleString("en") + "." + String(Math.floor(us % 1e6)).padStart(6, "0") + " s";
}

function duration(us) {
  const short = (number) => String(Number(number.toPrecision(3)));
  if (us < 1e3) return short(us) + " µs";
  if (us < 1e6) return short(us / 1e3) + " ms";
  if (us < 120e6) return short(us / 1e6) + " s";
  return us < 7200e6 ? short(us / 60e6) + " min" : short(us / 3600e6) + " h";
}

function bytes(number) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (number >= 1024 && unit < 5) { number /= 1024; unit++; }
  return String(Number(number.toPrecision(3))) + " " + units[unit];
}

// Everything about a line, as rows of words: the first is its title.
function about(i) {
  const kind = data.kind[i], name = data.names[data.name[i]];
  const rows = [];
  const isMessage = kind === K.send || kind === K.deliver || kind === K.drop;
  if (isMessage) {
    const sent = kind === K.send ? i : partner[i];
    const last = kind === K.send ? partner[i] : i;
    const from = sent >= 0 ? sent : i;
    rows.push(name + "  " + nodeName(data.node[from]) + " → " + nodeName(data.peer[from]));
    rows.push(sent >= 0 ? "sent " + instant(T[sent]) : "sent by a line that was left out");
    if (last >= 0) {
      const took = sent >= 0 ? " (" + duration(T[last] - T[sent]) + ")" : "";
      rows.push((data.kind[last] === K.drop ? "lost " : "arrived ") + instant(T[last]) + took);
      if (data.kind[last] === K.drop && last !== i && textOf(last)) rows.push(textOf(last));
    } else {
      rows.push("not seen to arrive, nor to be lost");
    }
  } else {
    const where = data.node[i] ? " at " + nodeName(data.node[i]) : "";
    const other = data.peer[i] ? " ↔ " + nodeName(data.peer[i]) : "";
    rows.push(KIND[kind] + ": " + name + where + other);
    rows.push(instant(T[i]));
  }
  if (data.partition[i]) rows.push(partitionName(data.partition[i]));
  const size = data.bytes[i] || (partner[i] >= 0 ? data.bytes[partner[i]] : 0);
  if (size) rows.push(bytes(size));
  if (textOf(i)) rows.push(textOf(i));
  rows.push("line #" + N[i]);
  return rows;
}
