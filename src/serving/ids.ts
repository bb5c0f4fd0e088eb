/** Short ids that cannot be guessed. */

const ID_BYTES = 12;
const pool = new Uint8Array(ID_BYTES * 256);
let used = pool.length;

/** 96 random bits as 16 characters that need no escaping in a URL. */
export function newId(): string {
  if (used === pool.length) {
    crypto.getRandomValues(pool);
    used = 0;
  }
  const id = pool.subarray(used, used + ID_BYTES).toBase64({ alphabet: "base64url" });
  used += ID_BYTES;
  return id;
}
