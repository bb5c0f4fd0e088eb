/** Random damage to the bytes of files, and to JSON values. */

type Random = () => number;

/** Numbers at the limits of integer fields of 8, 16 and 32 bits. */
const edges = [0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff] as const;
/** Names that every JavaScript object inherits, and values that careless readers handle wrongly. */
const values = ["", "__proto__", "constructor", "toString", "0", -1, 2 ** 53, 1e308, 1.5, true, null, [], {}] as const;

/** A valid file with one to six random changes. @param seeds valid files */
export function damaged(seeds: readonly Uint8Array[], random: Random): Uint8Array {
  let bytes = Uint8Array.from(pick(seeds, random));
  for (let change = 1 + below(6, random); change > 0; change--) bytes = changed(bytes, seeds, random);
  return bytes;
}

function changed(
  bytes: Uint8Array<ArrayBuffer>,
  seeds: readonly Uint8Array[],
  random: Random,
): Uint8Array<ArrayBuffer> {
  // Half of the changes hit the first 128 bytes, because readers trust the sizes in a header.
  const at = below(random() < 0.5 ? Math.min(bytes.length, 128) : bytes.length, random);
  const length = 1 + below(random() < 0.9 ? 16 : 1000, random);
  const view = new DataView(bytes.buffer);
  switch (below(8, random)) {
    case 0:
      if (at < bytes.length) bytes[at] = (bytes[at] ?? 0) ^ (1 << below(8, random));
      return bytes;
    case 1:
      if (at < bytes.length) bytes[at] = below(256, random);
      return bytes;
    case 2:
      if (at + 4 <= bytes.length) view.setUint32(at, pick(edges, random), random() < 0.5);
      return bytes;
    case 3:
      if (at + 2 <= bytes.length) view.setUint16(at, pick(edges, random), random() < 0.5);
      return bytes;
    case 4:
      return joined(bytes.subarray(0, at), bytes.subarray(at + length));
    case 5:
      return joined(bytes.subarray(0, at + length), bytes.subarray(at));
    case 6: {
      const other = pick(seeds, random);
      const from = below(other.length, random);
      return joined(bytes.subarray(0, at), other.subarray(from, from + length), bytes.subarray(at));
    }
    default:
      return random() < 0.3
        ? bytes.slice(0, at)
        : joined(
            bytes,
            Uint8Array.from({ length }, () => below(256, random)),
          );
  }
}

/** A copy of a JSON value in which one to four parts are replaced, removed, repeated or renamed. */
export function damagedJson(value: unknown, random: Random): unknown {
  const copy: unknown = structuredClone(value);
  for (let change = 1 + below(4, random); change > 0; change--) damage(copy, copy, random);
  return copy;
}

function damage(root: unknown, value: unknown, random: Random): void {
  if (typeof value !== "object" || value === null) return;
  const keys = Object.keys(value);
  const key = keys[below(keys.length, random)];
  if (key === undefined) return;
  const members = value as Record<string, unknown>;
  const member = members[key];
  if (typeof member === "object" && member !== null && random() < 0.85) {
    damage(root, member, random);
    return;
  }
  const kind = below(4, random);
  if (kind === 0) delete members[key];
  else if (kind === 1) members[key] = pick(values, random);
  else if (kind === 2) members[key] = structuredClone(partOf(root, random));
  else members[typeof member === "string" ? member : "__proto__x"] = member;
}

function partOf(value: unknown, random: Random): unknown {
  if (typeof value !== "object" || value === null || random() < 0.1) return value;
  const members = Object.values(value);
  return members.length === 0 ? value : partOf(pick(members, random), random);
}

function joined(...parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  return new Uint8Array(Buffer.concat(parts));
}

function pick<T>(of: readonly T[], random: Random): T {
  return of[below(of.length, random)] as T;
}

function below(count: number, random: Random): number {
  return Math.floor(random() * count);
}
