/** Short ids that cannot be guessed. */

/** 96 random bits. */
const BYTES = 12;
/** What 12 bytes are in base64, which has four characters for three bytes. */
const LENGTH = 16;
/** Made at a time: a call for random bytes costs far more than the bytes. */
const COUNT = 256;
let pool = "";
let used = 0;

/** @returns the owner's name and 96 random bits as 16 characters, none of which needs escaping in a URL */
export function newId(owner: string): string {
  if (used === pool.length) {
    pool = crypto.getRandomValues(new Uint8Array(BYTES * COUNT)).toBase64({ alphabet: "base64url" });
    used = 0;
  }
  used += LENGTH;
  return owner + pool.slice(used - LENGTH, used);
}
