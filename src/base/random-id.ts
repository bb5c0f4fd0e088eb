/** Random ids against guessing. */

/** Random bytes of an id. */
const BYTES = 12;
/** Characters of the random bytes in base64. */
const LENGTH = 16;
/** Random bytes are requested for 256 ids at once, because a request costs far more than its bytes. */
const COUNT = 256;
let pool = "";
let used = 0;

/** Creates 16 base64url characters, 96 random bits. */
export function randomId(): string {
  if (used === pool.length) {
    pool = crypto.getRandomValues(new Uint8Array(BYTES * COUNT)).toBase64({ alphabet: "base64url" });
    used = 0;
  }
  used += LENGTH;
  return pool.slice(used - LENGTH, used);
}
