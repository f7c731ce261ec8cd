// What an ID and a layout are, as the extension has it: crates/snowflake_core. IDs are BigInt.
"use strict";

const snowflake = (() => {
  const MAX_ID = (1n << 63n) - 1n;
  /** When PostgreSQL's timestamps end, which no layout reaches: crates/snowflake_core, END_OF_TIME. */
  const END_OF_TIME = 1n << 53n;

  const FIELDS = {
    t: { name: "timestamp", maxBits: 63 },
    d: { name: "data center", maxBits: 31 },
    w: { name: "worker", maxBits: 31 },
    h: { name: "tag", maxBits: 31 },
    s: { name: "sequence", maxBits: 31 },
  };

  /** The layouts of the view snowflake_layouts; a test compares them. Ticks and epochs are in milliseconds. */
  const PRESETS = {
    flat: { fields: "t41 w10 s12", tickMs: 1, epoch: 1288834974657 },
    twitter: { fields: "t41 d5 w5 s12", tickMs: 1, epoch: 1288834974657 },
    leaf: { fields: "t41 w10 s12", tickMs: 1, epoch: 1288834974657 },
    uid: { fields: "t28 w22 s13", tickMs: 1000, epoch: 1463673600000 },
    k8s: { fields: "t28 w24 s11", tickMs: 1000, epoch: 1631780048000 },
    game: { fields: "t31 w20 s12", tickMs: 1000, epoch: 1704067200000 },
    js: { fields: "t41 w6 s6", tickMs: 1, epoch: 1704067200000 },
    pgedge: { fields: "t41 w10 s12", tickMs: 1, epoch: 1672531200000 },
    pgactive: { fields: "t40 w10 s14", tickMs: 1, epoch: 1475796139634 },
    pgdog: { fields: "t41 w10 s12", tickMs: 1, epoch: 1764184395000 },
    pgdog_compact: { fields: "t41 w6 s6", tickMs: 1, epoch: 1764184395000 },
    clickhouse: { fields: "t41 w10 s12", tickMs: 1, epoch: 0 },
    tsid: { fields: "t42 w10 s12", tickMs: 1, epoch: 1577836800000 },
    sonyflake: { fields: "t39 s8 w16", tickMs: 10, epoch: 1409529600000 },
    instagram: { fields: "t41 w13 s10", tickMs: 1, epoch: 1314220021721 },
    discord: { fields: "t42 d5 w5 s12", tickMs: 1, epoch: 1420070400000 },
    mastodon: { fields: "t48 s16", tickMs: 1, epoch: 0 },
  };
  const NAMES = Object.keys(PRESETS).join(", ");

  const YEAR_MS = 365.2425 * 86400 * 1000;

  /** What is wrong with an input, as a sentence. */
  class Invalid extends Error {}

  const years = (bits, tickMs) => (2 ** bits * tickMs) / YEAR_MS;
  const unitText = (tickMs) => (tickMs === 1000 ? "1s" : `${tickMs}ms`);

  /** A time in Unix milliseconds as the extension writes it; beyond JavaScript's dates, the year alone. */
  function timeText(ms) {
    const date = new Date(Number(ms));
    if (Number.isNaN(date.getTime())) return `about the year ${Math.floor(1970 + Number(ms) / YEAR_MS)}`;
    return date.toISOString().replace(/^\+0*/, "").replace(/\.000Z$/, "Z");
  }

  function parseField(token) {
    const found = /^([tdwhs])(\d+)$/i.exec(token);
    if (!found) {
      if (token.toLowerCase() in PRESETS) {
        throw new Invalid(`"${token}" is the name of a layout, and can only be the first token`);
      }
      throw new Invalid(
        `"${token}" is neither the name of a layout (${NAMES}) nor a field such as t41, d5, w5, h8 or s12, nor unit= or epoch=`);
    }
    const letter = found[1].toLowerCase();
    const bits = Number(found[2]);
    const { maxBits } = FIELDS[letter];
    if (!(bits >= 1 && bits <= maxBits)) {
      throw new Invalid(`"${token}" is not a width: the field ${letter} has 1 to ${maxBits} bits`);
    }
    return { letter, bits };
  }

  function parseUnit(token, value) {
    const found = /^(\d+)(ms|s)$/i.exec(value);
    const ms = found ? Number(found[1]) * (found[2].toLowerCase() === "s" ? 1000 : 1) : 0;
    if (!(ms >= 1 && ms <= 1000)) {
      throw new Invalid(`"${token}" is not a unit: write whole milliseconds from unit=1ms to unit=1000ms, or unit=1s`);
    }
    return ms;
  }

  function parseEpoch(token, value) {
    const isNumber = /^\d+$/.test(value);
    const isTime = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,3}0*)?)?(Z|[+-]\d\d(:?\d\d)?)$/i.test(value);
    const ms = isNumber ? Number(value) : isTime ? Date.parse(value.replace(" ", "T").toUpperCase()) : NaN;
    if (!(ms >= 0 && ms < 253402300800000)) {
      throw new Invalid(
        `"${token}" is not an epoch: write Unix milliseconds or a time with a zone between the years 1970 and 9999, ` +
        "such as epoch=2024-01-01T00:00:00Z");
    }
    return ms;
  }

  /** A layout's text as a layout; throws Invalid in the extension's words. */
  function parseLayout(text) {
    const tokens = text.split(/[ \t\n\r\f]+/).filter((token) => token !== "");
    if (tokens.length === 0) throw new Invalid(`A layout begins with a name (${NAMES}) or a field such as t41`);
    const preset = PRESETS[tokens[0].toLowerCase()];
    if (preset) tokens.shift();
    const fields = [];
    let tickMs, epoch;
    const once = (isFirst, token, what) => {
      if (!isFirst) throw new Invalid(`"${token}" sets the ${what} a second time`);
    };
    for (const token of tokens) {
      const [, key, value] = /^(unit|epoch)=(.*)$/i.exec(token) ?? [];
      if (key?.toLowerCase() === "unit") {
        const ms = parseUnit(token, value);
        once(tickMs === undefined, token, "unit");
        tickMs = ms;
      } else if (key) {
        const ms = parseEpoch(token, value);
        once(epoch === undefined, token, "epoch");
        epoch = ms;
      } else {
        const field = parseField(token);
        once(fields.every(({ letter }) => letter !== field.letter), token, FIELDS[field.letter].name);
        fields.push(field);
      }
    }
    if (fields.length === 0 && !preset) {
      throw new Invalid(`A layout begins with a name (${NAMES}) or a field such as t41`);
    }
    const base = preset ?? PRESETS.flat;
    return place(fields.length > 0 ? fields : base.fields.split(" ").map(parseField), tickMs ?? base.tickMs, epoch ?? base.epoch);
  }

  /** Places fields from the highest bits to the lowest. */
  function place(fields, tickMs, epoch) {
    const text = fields.map(({ letter, bits }) => `${letter}${bits}`).join(" ");
    const timestamp = fields.find(({ letter }) => letter === "t");
    if (!timestamp) throw new Invalid(`"${text}" has no timestamp: add a field such as t41`);
    const bits = fields.reduce((sum, field) => sum + field.bits, 0);
    if (bits > 64) {
      throw new Invalid(`"${text}" has ${bits} bits, and an ID has 64; its ${timestamp.bits} bits of ${unitText(tickMs)} last ` +
        `${years(timestamp.bits, tickMs).toFixed(1)} years`);
    }
    if (BigInt(epoch) + (BigInt(tickMs) << BigInt(timestamp.bits)) > END_OF_TIME) {
      throw new Invalid(`"t${timestamp.bits}" of ${unitText(tickMs)} lasts ${years(timestamp.bits, tickMs).toFixed(0)} years, ` +
        "and a layout can last until about the year 287000");
    }
    let below = bits;
    const placed = fields.map(({ letter, bits: width }) => ({ letter, bits: width, shift: (below -= width) }));
    return { fields: placed, fieldsText: text, bits, tickMs, epoch, text: `${text} unit=${unitText(tickMs)} epoch=${timeText(epoch)}` };
  }

  const field = (layout, letter) => layout.fields.find((one) => one.letter === letter);
  const count = (layout, letter) => 1n << BigInt(field(layout, letter)?.bits ?? 0);
  const valueOf = (id, { bits, shift }) => (BigInt.asUintN(64, id) >> BigInt(shift)) & ((1n << BigInt(bits)) - 1n);

  /** What a layout has room for, and why no server can issue its IDs; undefined if one can. */
  function room(layout) {
    const timestamp = field(layout, "t");
    const end = BigInt(layout.epoch) + (BigInt(layout.tickMs) << BigInt(timestamp.bits));
    let decodeOnly;
    if (layout.bits > 63) {
      decodeOnly = `"${layout.fieldsText}" has ${layout.bits} bits, and an ID that is issued has at most 63; its timestamps last ` +
        `${years(timestamp.bits, layout.tickMs).toFixed(1)} years`;
    } else if (layout.fields[0].letter !== "t") {
      decodeOnly = `The timestamp is not the highest field of "${layout.fieldsText}", so IDs would not sort by time`;
    }
    return {
      servers: count(layout, "d") * count(layout, "w"),
      idsPerSecond: (count(layout, "s") * 1000n) / BigInt(layout.tickMs),
      years: years(timestamp.bits, layout.tickMs),
      lastTimestamp: end - BigInt(layout.tickMs),
      decodeOnly,
    };
  }

  /** The fields of an ID; null for a field that the layout lacks. Throws Invalid if the layout has no such ID. */
  function decode(id, layout) {
    const unsigned = BigInt.asUintN(64, id);
    if (unsigned >> BigInt(layout.bits)) {
      if (id < 0n) throw new Invalid("Snowflake ID must not be negative");
      throw new Invalid(`The ID does not fit the layout: its greatest ID is ${(1n << BigInt(layout.bits)) - 1n}`);
    }
    const get = (letter) => {
      const found = field(layout, letter);
      return found ? valueOf(id, found) : null;
    };
    const ticks = get("t");
    return {
      ticks,
      issuedAt: BigInt(layout.epoch) + ticks * BigInt(layout.tickMs),
      datacenter: get("d"),
      worker: get("w"),
      tag: get("h"),
      sequence: get("s"),
    };
  }

  /** An ID of unknown origin under each named layout that it fits, the latest time first: snowflake_decode_all(). */
  function decodeAll(id) {
    // Another server's clock may be wrong.
    const latest = BigInt(Date.now() + 86400000);
    const layouts = Object.keys(PRESETS).map((name) => ({ name, layout: parseLayout(name) }));
    const fitting = layouts.filter(({ layout }) => !(BigInt.asUintN(64, id) >> BigInt(layout.bits)));
    const decoded = fitting.map(({ name, layout }) => ({ name, ...decode(id, layout) })).filter(({ issuedAt }) => issuedAt <= latest);
    return decoded.sort((one, other) => Number(other.issuedAt - one.issuedAt));
  }

  /** The lowest ID of the tick of a time, in Unix milliseconds: snowflake_min_id(). */
  function minId(ms, layout) {
    const timestamp = field(layout, "t");
    if (layout.fields[0].letter !== "t") throw new Invalid("IDs of this layout do not sort by time");
    const since = BigInt(ms) - BigInt(layout.epoch);
    if (since < 0n) throw new Invalid("timestamp is before the epoch of the layout");
    const tick = since / BigInt(layout.tickMs);
    if (tick >> BigInt(timestamp.bits)) throw new Invalid("timestamp is after the end of the layout");
    return tick << BigInt(timestamp.shift);
  }

  const ENCODINGS = {
    base62: "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
    base58: "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
    crockford32: "0123456789ABCDEFGHJKMNPQRSTVWXYZ",
    hex: "0123456789abcdef",
  };

  /** A text of snowflake_to_text() as an ID. */
  function fromText(text, encoding) {
    const digits = ENCODINGS[encoding];
    const forgive = {
      crockford32: (sign) => ({ I: "1", L: "1", O: "0" })[sign.toUpperCase()] ?? sign.toUpperCase(),
      hex: (sign) => sign.toLowerCase(),
    }[encoding] ?? ((sign) => sign);
    let id = 0n;
    let some = false;
    for (const [at, sign] of [...text].entries()) {
      if (encoding === "crockford32" && sign === "-") continue;
      const digit = digits.indexOf(forgive(sign));
      if (digit < 0) throw new Invalid(`Character ${at + 1} is "${sign}", which is not a digit of ${encoding}`);
      id = id * BigInt(digits.length) + BigInt(digit);
      some = true;
      if (id > MAX_ID) throw new Invalid(`The value is greater than ${MAX_ID}, the greatest ID`);
    }
    if (!some) throw new Invalid("The text has no digits");
    return id;
  }

  /** An ID as such a text. */
  function toText(id, encoding) {
    const digits = ENCODINGS[encoding];
    let text = "";
    for (let rest = id; rest > 0n; rest /= BigInt(digits.length)) text = digits[Number(rest % BigInt(digits.length))] + text;
    return text.padStart({ crockford32: 13, hex: 16 }[encoding] ?? 1, digits[0]);
  }

  /** The UUID of snowflake_to_uuid() as an ID. */
  function fromUuid(text) {
    const bits = BigInt(`0x${text.replaceAll("-", "")}`);
    const part = (shift, width) => (bits >> BigInt(shift)) & ((1n << BigInt(width)) - 1n);
    if (part(62, 2) !== 2n) throw new Invalid("Its variant is not RFC 9562's");
    if (part(76, 4) !== 8n) throw new Invalid(`Its version is ${part(76, 4)}, and an ID's is 8`);
    if (part(0, 58) !== 0n) throw new Invalid("Its last 58 bits are not all 0");
    const id = (part(80, 48) << 16n) | (part(64, 12) << 4n) | part(58, 4);
    if (id > MAX_ID) throw new Invalid(`The number in it, ${id}, is greater than ${MAX_ID}, the greatest ID`);
    return id;
  }

  function toUuid(id) {
    const bits = ((id >> 16n) << 80n) | (8n << 76n) | (((id >> 4n) & 0xfffn) << 64n) | (2n << 62n) | ((id & 0xfn) << 58n);
    return bits.toString(16).padStart(32, "0").replace(/(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
  }

  /** Thousands, as spreadsheets and monitors write them. */
  const GROUPED = /^[+-]?\d{1,3}([,._'\u2019\s])\d{3}(\1\d{3})*$/;

  /** What somebody has typed, as an ID: a number, a UUID, or a text in this encoding. */
  function parseId(text, encoding) {
    const trimmed = text.trim();
    if (encoding !== "number") return fromText(trimmed, encoding);
    if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(trimmed)) return fromUuid(trimmed);
    const digits = GROUPED.test(trimmed) ? trimmed.replace(/[^\d+-]/g, "") : trimmed;
    if (!/^[+-]?\d+$/.test(digits)) throw new Invalid(`"${trimmed}" is not an ID: type a number, or choose how it is written`);
    const id = BigInt(digits.replace("+", ""));
    if (id > MAX_ID || id < -(1n << 63n)) throw new Invalid(`${trimmed} is out of range for type bigint`);
    return id;
  }

  return { Invalid, PRESETS, FIELDS, ENCODINGS, parseLayout, room, decode, decodeAll, minId, parseId, toText, toUuid, timeText, valueOf };
})();
