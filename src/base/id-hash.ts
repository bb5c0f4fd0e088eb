/** A hash of ids, for hash tables. */

const [key0 = 0, key1 = 0] = crypto.getRandomValues(new Int32Array(2));

/**
 * Hashes an id for hash tables: HalfSipHash-1-3 (https://github.com/veorq/SipHash). The key is random, because clients
 * choose ids and could choose ids that collide.
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

/** Four characters as a little-endian 32-bit number. Ids are ASCII, so each character is one byte. */
function wordAt(id: string, i: number): number {
  return id.charCodeAt(i) | (id.charCodeAt(i + 1) << 8) | (id.charCodeAt(i + 2) << 16) | (id.charCodeAt(i + 3) << 24);
}
