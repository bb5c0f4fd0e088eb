/** A hash table of records by id. It consists of typed arrays, which the garbage collector does not traverse. */
import type { Place, RecordLog } from "./record-log.ts";

/** Number of hash tables. Each grows alone, so that no insertion takes long. */
const PARTS = 256;
const MIN_LENGTH = 8;
const NONE = -1;

/** One hash table, with open addressing and linear probing. At most half of its slots are used. */
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

  /**
   * The position of a record; undefined if there is none.
   * @param hash hash of the id
   * @param records reads the ids of found records, since two ids may have the same hash
   */
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

  /**
   * Removes a record.
   * @returns whether the table had it
   */
  delete(hash: number, place: Place): boolean {
    const part = this.#partOf(hash);
    const { hashes, places } = part;
    const last = places.length - 1;
    let gap = hash & last;
    while (places[gap] !== place) {
      if (places[gap] === NONE) return false;
      gap = (gap + 1) & last;
    }
    // Moves later entries into the gap, because a search for an id stops at the first empty slot.
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
