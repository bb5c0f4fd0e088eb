/** A hash index of records by id, in typed arrays: the garbage collector does not traverse these, however many records there are. */
import type { Place, RecordLog } from "./record-log.ts";

/** The parts grow independently, so that no single growth takes long. */
const PARTS = 256;
const MIN_LENGTH = 8;
const NONE = -1;

/** Open addressing with linear probing; at most half full. */
interface Part {
  hashes: Int32Array;
  places: Float64Array;
  size: number;
}

export class RecordIndex {
  readonly #parts: readonly Part[] = Array.from({ length: PARTS }, () => ({ ...emptyOf(MIN_LENGTH), size: 0 }));
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** @param records gives the ids of records with the same hash */
  find(id: string, hash: number, records: Pick<RecordLog, "id">): Place | undefined {
    const { hashes, places } = this.#partOf(hash);
    const last = places.length - 1;
    for (let i = hash & last; ; i = (i + 1) & last) {
      const place = places[i] ?? NONE;
      if (place === NONE) return undefined;
      if (hashes[i] === hash && records.id(place) === id) return place;
    }
  }

  add(hash: number, place: Place): void {
    const part = this.#partOf(hash);
    if (part.size * 2 >= part.places.length) grow(part);
    put(part, hash, place);
    part.size += 1;
    this.#size += 1;
  }

  /** @returns whether the index had the record */
  delete(hash: number, place: Place): boolean {
    const part = this.#partOf(hash);
    const { hashes, places } = part;
    const last = places.length - 1;
    let gap = hash & last;
    while (places[gap] !== place) {
      if (places[gap] === NONE) return false;
      gap = (gap + 1) & last;
    }
    // Moves later entries back, so that probing from the home slot of an entry meets no gap.
    for (let i = (gap + 1) & last; places[i] !== NONE; i = (i + 1) & last) {
      const home = (hashes[i] ?? 0) & last;
      if (((i - home) & last) < ((i - gap) & last)) continue;
      hashes[gap] = hashes[i] ?? 0;
      places[gap] = places[i] ?? NONE;
      gap = i;
    }
    places[gap] = NONE;
    part.size -= 1;
    this.#size -= 1;
    return true;
  }

  #partOf(hash: number): Part {
    const part = this.#parts[hash >>> 24];
    if (part === undefined) throw new RangeError(`${hash} is no hash of 32 bits`);
    return part;
  }
}

function emptyOf(length: number): Pick<Part, "hashes" | "places"> {
  return { hashes: new Int32Array(length), places: new Float64Array(length).fill(NONE) };
}

function put({ hashes, places }: Part, hash: number, place: Place): void {
  const last = places.length - 1;
  let i = hash & last;
  while (places[i] !== NONE) i = (i + 1) & last;
  hashes[i] = hash;
  places[i] = place;
}

function grow(part: Part): void {
  const { hashes, places } = part;
  Object.assign(part, emptyOf(places.length * 2));
  for (let i = 0; i < places.length; i++) {
    const place = places[i] ?? NONE;
    if (place !== NONE) put(part, hashes[i] ?? 0, place);
  }
}
