/** Ids of predictions: the owner, the second of the creation, and 96 random bits. Short, and impossible to guess. */

/**
 * The first character of an id stands for the front that owns the prediction. New ids begin with one of the first 60, because a server has at most 60
 * fronts. A client-chosen id may begin with any.
 */
const owners = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
/** 96 random bits. */
const BYTES = 12;
/** Length of 12 bytes in base64. */
const LENGTH = 16;
/** Ids from one call for random bytes, which costs far more than the bytes. */
const COUNT = 256;
/** The second of an id's creation takes three bytes. Ids of the same time are then near each other in a database. */
const SECONDS = 2 ** 24;
let pool = "";
let used = 0;
let second = -1;
let secondText = "";

/** The owner of the front with this index. */
export function ownerOf(index: number): string {
  return owners[index] ?? "0";
}

/**
 * Index of the front that owns an id, among `fronts` fronts. Owners beyond that count wrap around: the remaining fronts take over.
 * @returns undefined for a malformed id
 */
export function frontOf(id: string, fronts: number): number | undefined {
  const at = owners.indexOf(id.slice(0, 1));
  return id === "" || at < 0 ? undefined : at % fronts;
}

/** @returns 21 characters that need no escaping in a URL */
export function newId(owner: string): string {
  if (used === pool.length) {
    pool = crypto.getRandomValues(new Uint8Array(BYTES * COUNT)).toBase64({ alphabet: "base64url" });
    used = 0;
  }
  used += LENGTH;
  const now = Math.floor(Date.now() / 1000) % SECONDS;
  if (now !== second) {
    second = now;
    secondText = Uint8Array.of(now >> 16, now >> 8, now).toBase64({ alphabet: "base64url" });
  }
  return owner + secondText + pool.slice(used - LENGTH, used);
}

/** The second of an id's creation, modulo 194 days; 0 for other texts. */
export function secondOf(id: string): number {
  const [high = 0, middle = 0, low = 0] = Buffer.from(id.slice(1, 5), "base64url");
  return (high << 16) | (middle << 8) | low;
}

/** A secret key: clients choose ids, and must not be able to choose ids with the same hash. */
const [key0 = 0, key1 = 0] = crypto.getRandomValues(new Int32Array(2));

/**
 * HalfSipHash-1-3 of an id with a random key of this process (Aumasson and Bernstein, https://github.com/veorq/SipHash). Hash tables
 * need it if clients choose the keys.
 */
export function hashOf(id: string): number {
  let [v0, v1, v2, v3] = [key0, key1, 0x6c796765 ^ key0, 0x74656462 ^ key1];
  const round = () => {
    v0 = (v0 + v1) | 0;
    v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
    v0 = (v0 << 16) | (v0 >>> 16);
    v2 = (v2 + v3) | 0;
    v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
    v0 = (v0 + v3) | 0;
    v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0;
    v2 = (v2 + v1) | 0;
    v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2;
    v2 = (v2 << 16) | (v2 >>> 16);
  };
  const whole = id.length & ~3;
  for (let i = 0; i < whole; i += 4) {
    const word = wordAt(id, i);
    v3 ^= word;
    round();
    v0 ^= word;
  }
  let last = id.length << 24;
  for (let i = whole; i < id.length; i++) last |= id.charCodeAt(i) << (8 * (i & 3));
  v3 ^= last;
  round();
  v0 ^= last;
  v2 ^= 0xff;
  round();
  round();
  round();
  return v1 ^ v3;
}

/** Ids are ASCII. */
function wordAt(id: string, i: number): number {
  return id.charCodeAt(i) | (id.charCodeAt(i + 1) << 8) | (id.charCodeAt(i + 2) << 16) | (id.charCodeAt(i + 3) << 24);
}
