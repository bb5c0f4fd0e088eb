/** Checksums of audio formats: the first bit of a byte counts most, and nothing is added (Ross Williams, 1993). */

export interface Checksum {
  readonly bits: 8 | 16 | 32;
  readonly polynomial: number;
}

export function crc(bytes: Uint8Array, checksum: Checksum): number {
  let sum = 0;
  for (const byte of bytes) sum = addByte(sum, byte, checksum);
  return sum;
}

export function addByte(sum: number, byte: number, { bits, polynomial }: Checksum): number {
  // The top bits of a 32-bit number hold the checksum.
  const shift = 32 - bits;
  let left = (sum << shift) ^ (byte << 24);
  for (let i = 0; i < 8; i++) left = left < 0 ? (left << 1) ^ (polynomial << shift) : left << 1;
  return left >>> shift;
}
