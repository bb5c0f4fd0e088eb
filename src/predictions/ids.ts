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

/** Clients may choose ids, but not such that all have one hash. */
const [seed = 0] = crypto.getRandomValues(new Int32Array(1));
/** Of FNV-1a, http://www.isthe.com/chongo/tech/comp/fnv/ */
const FNV_PRIME = 0x01000193;

/** 32 bits that are the same for this id as long as this process runs. */
export function hashOf(id: string): number {
  let hash = seed;
  for (let i = 0; i < id.length; i++) hash = Math.imul(hash ^ id.charCodeAt(i), FNV_PRIME);
  return hash ^ (hash >>> 15);
}
