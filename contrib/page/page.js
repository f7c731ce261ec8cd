// Shows what snowflake.js computes. The fragment of the address holds the ID, how it is written, and the layout.
"use strict";

const at = (name) => document.getElementById(name);
const show = (name, text) => { at(name).textContent = text; };

/** The order of fields for widths that a layout does not have yet. */
const ORDER = ["t", "d", "w", "s"];

/** Runs something; shows what is wrong with the input, and returns null then. */
function attempt(input, error, work) {
  try {
    const done = work();
    show(error, "");
    at(input).removeAttribute("aria-invalid");
    return done;
  } catch (problem) {
    if (!(problem instanceof snowflake.Invalid)) throw problem;
    show(error, `${problem.message}.`);
    at(input).setAttribute("aria-invalid", "true");
    return null;
  }
}

function group(kind, bits, name) {
  const element = document.createElement("span");
  element.className = `group ${kind}`;
  const digits = document.createElement("b");
  digits.textContent = bits;
  const label = document.createElement("span");
  label.textContent = name;
  element.append(digits, label);
  return element;
}

/** The 64 bits of an ID, grouped by field. */
function drawBits(id, layout) {
  const binary = BigInt.asUintN(64, id).toString(2).padStart(64, "0");
  const unused = 64 - layout.bits;
  const groups = layout.fields.map(({ letter, bits, shift }) => {
    const end = 64 - shift;
    return group(letter, binary.slice(end - bits, end), `${snowflake.FIELDS[letter].name}, ${bits}`);
  });
  if (unused > 0) groups.unshift(group("unused", binary.slice(0, unused), "unused"));
  at("bits").replaceChildren(...groups);
  at("bits").setAttribute("aria-label", `Bits: ${groups.map((one) => one.innerText).join("; ")}`);
}

/** The layout as SQL names it: its name, if that is all that was typed. */
function shortest(layout) {
  const name = at("layout").value.trim().toLowerCase();
  return Object.hasOwn(snowflake.PRESETS, name) ? name : layout.text;
}

function showId(id, layout) {
  const decoded = attempt("id", "id-error", () => snowflake.decode(id, layout));
  at("decoded").hidden = decoded === null;
  if (decoded === null) return;
  drawBits(id, layout);
  const time = new Date(Number(decoded.issuedAt));
  const number = (value) => (value === null ? "none in this layout" : value.toString());
  show("issued-at", snowflake.timeText(decoded.issuedAt));
  show("local", Number.isNaN(time.getTime()) ? "" : time.toLocaleString(undefined, { dateStyle: "full", timeStyle: "long" }));
  show("datacenter", number(decoded.datacenter));
  show("worker", number(decoded.worker));
  show("tag", number(decoded.tag));
  at("tag-row").hidden = decoded.tag === null;
  show("sequence", number(decoded.sequence));
  show("min-id", layout.fields[0].letter === "t" ? snowflake.minId(decoded.issuedAt, layout).toString() : "IDs do not sort by time");
  show("base62", id < 0n ? "" : snowflake.toText(id, "base62"));
  show("uuid", id < 0n ? "" : snowflake.toUuid(id));
  show("sql", `SELECT * FROM snowflake_decode(${id}, '${shortest(layout)}');`);
}

/** The ID under each layout, whose name leads to it. */
function showAll(id) {
  const rows = snowflake.decodeAll(id).map(({ name, issuedAt, datacenter, worker, sequence }) => {
    const link = document.createElement("a");
    link.href = `#${new URLSearchParams({ id: at("id").value, as: at("encoding").value, layout: name })}`;
    link.textContent = name;
    const row = document.createElement("tr");
    row.append(...[link, snowflake.timeText(issuedAt), datacenter, worker, sequence].map((value) => {
      const cell = document.createElement("td");
      cell.append(value ?? "");
      return cell;
    }));
    return row;
  });
  at("all-rows").replaceChildren(...rows);
}

function showLayout(layout) {
  const room = snowflake.room(layout);
  const digits = new Intl.NumberFormat("en");
  show("servers", digits.format(room.servers));
  show("rate", digits.format(room.idsPerSecond));
  show("years", room.years.toFixed(1));
  show("last", snowflake.timeText(room.lastTimestamp));
  show("width", `${layout.bits} of ${Math.max(layout.bits, 63)}`);
  show("decode-only", room.decodeOnly ? `IDs of this layout can be decoded but not issued. ${room.decodeOnly}.` : "");
  show("setting", `snowflake_pg.layout = '${shortest(layout)}'`);
  at("setting").hidden = room.decodeOnly !== undefined;
  for (const letter of ORDER) {
    const input = at(`width-${letter}`);
    if (document.activeElement !== input) input.value = layout.fields.find((one) => one.letter === letter)?.bits ?? 0;
  }
}

/** The layout with another width of one field; 0 leaves the field out. */
function withWidth(layout, letter, bits) {
  const fields = layout.fields.map((one) => ({ letter: one.letter, bits: one.letter === letter ? bits : one.bits }));
  if (!fields.some((one) => one.letter === letter)) {
    const place = fields.findIndex((one) => ORDER.indexOf(one.letter) > ORDER.indexOf(letter));
    fields.splice(place < 0 ? fields.length : place, 0, { letter, bits });
  }
  const text = fields.filter((one) => one.bits > 0).map((one) => `${one.letter}${one.bits}`).join(" ");
  return `${text} unit=${layout.tickMs}ms epoch=${snowflake.timeText(layout.epoch)}`;
}

let lastLayout = null;

function update() {
  const layout = attempt("layout", "layout-error", () => snowflake.parseLayout(at("layout").value));
  at("computed").hidden = layout === null;
  const id = attempt("id", "id-error", () => snowflake.parseId(at("id").value, at("encoding").value));
  at("decoded").hidden = layout === null || id === null;
  at("all").hidden = id === null;
  if (id !== null) showAll(id);
  if (layout !== null) {
    lastLayout = layout;
    showLayout(layout);
    if (id !== null) showId(id, layout);
  }
}

function remember() {
  const state = new URLSearchParams({ id: at("id").value, as: at("encoding").value, layout: at("layout").value });
  history.replaceState(null, "", `#${state}`);
}

function recall() {
  const state = new URLSearchParams(location.hash.slice(1));
  at("id").value = state.get("id") ?? "1541815603606036480";
  at("encoding").value = state.get("as") ?? "number";
  if (at("encoding").value === "") at("encoding").value = "number";
  at("layout").value = state.get("layout") ?? "flat";
  update();
}

for (const name of Object.keys(snowflake.PRESETS)) {
  const option = document.createElement("option");
  option.value = name;
  at("layouts").append(option);
}
for (const letter of ORDER) {
  const label = document.createElement("label");
  label.textContent = `bits of ${snowflake.FIELDS[letter].name}`;
  const input = document.createElement("input");
  Object.assign(input, { id: `width-${letter}`, type: "number", min: letter === "t" ? 1 : 0, max: snowflake.FIELDS[letter].maxBits });
  input.addEventListener("input", () => {
    if (lastLayout === null || !/^\d+$/.test(input.value)) return;
    at("layout").value = withWidth(lastLayout, letter, Number(input.value));
    update();
    remember();
  });
  label.append(input);
  at("widths").append(label);
}
at("form").addEventListener("submit", (event) => event.preventDefault());
at("form").addEventListener("input", () => { update(); remember(); });
addEventListener("hashchange", recall);
recall();
