/** Short ids that cannot be guessed. */

/** 96 random bits. */
const BYTES = 12;
/** What 12 bytes are in base64, which has four characters for three bytes. */
const LENGTH = 16;
/** Made at a time: a call for random bytes costs far more than the bytes. */
const COUNT = 256;
/** An id says in which second it was made, in three bytes: a database has neighbours in one place, and knows where to look. */
const SECONDS = 2 ** 24;
let pool = "";
let used = 0;
let second = -1;
let secondText = "";

/** @returns the owner's name, the second, and 96 random bits: 21 characters, none of which needs escaping in a URL */
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

/** The second in which an id was made, counted from one of every 194 days; 0 for other texts. */
export function secondOf(id: string): number {
  const [high = 0, middle = 0, low = 0] = Buffer.from(id.slice(1, 5), "base64url");
  return (high << 16) | (middle << 8) | low;
}

/** Clients may choose ids, and must not be able to choose such as have one hash. */
const [key0 = 0, key1 = 0] = crypto.getRandomValues(new Int32Array(2));

/**
 * 32 bits that are the same for this id as long as this process runs: HalfSipHash-1-3 with a random key, made for tables whose keys others choose
 * (Aumasson and Bernstein, https://github.com/veorq/SipHash).
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

/** Of ASCII, as all ids are that there are. */
function wordAt(id: string, i: number): number {
  return id.charCodeAt(i) | (id.charCodeAt(i + 1) << 8) | (id.charCodeAt(i + 2) << 16) | (id.charCodeAt(i + 3) << 24);
}
