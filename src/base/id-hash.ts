/** A hash of ids, for hash tables. */

const [key0 = 0, key1 = 0] = crypto.getRandomValues(new Int32Array(2));

/**
 * Hashes an id for hash tables: HalfSipHash-1-3 (https://github.com/veorq/SipHash). The key is random, because clients
 * choose ids and could choose ids that collide.
 */
export function hashOf(id: string): number {
  let v0 = key0;
  let v1 = key1;
  let v2 = 0x6c796765 ^ key0;
  let v3 = 0x74656462 ^ key1;
  const words = id.length >> 2;
  // A round for each word, a round for the rest of the text, then three more rounds.
  for (let i = 0; i <= words + 3; i++) {
    const word = i < words ? wordAt(id, 4 * i) : i === words ? restOf(id, 4 * words) : 0;
    if (i === words + 1) v2 ^= 0xff;
    v3 ^= word;
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
    v0 ^= word;
  }
  return v1 ^ v3;
}

/** The characters after the last whole word, and the length of the id. */
function restOf(id: string, begin: number): number {
  let rest = id.length << 24;
  for (let i = begin; i < id.length; i++) rest |= id.charCodeAt(i) << (8 * (i & 3));
  return rest;
}

/** Four characters as a little-endian 32-bit number. Ids are ASCII, so each character is one byte. */
function wordAt(id: string, i: number): number {
  return id.charCodeAt(i) | (id.charCodeAt(i + 1) << 8) | (id.charCodeAt(i + 2) << 16) | (id.charCodeAt(i + 3) << 24);
}
