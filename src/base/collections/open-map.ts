/**
 * A map for entries that come and go by the thousand.
 *
 * JavaScriptCore's `Map` and `Set` make a new table each time that enough entries have come and gone, and the one before points to it: once a table
 * has become old, each collection of young garbage takes all tables after it for alive, and with them what they held (seen with Bun 1.4: 40 % of
 * all garbage was kept so for a while, and looked at again and again). This one stays in its arrays while its size stays about the same.
 */

const MIN_PLACES = 64;

export class OpenMap<K extends string | number, V> implements Iterable<V> {
  readonly #hash: (key: K) => number;
  /** Open addressing with linear probing; at most half of the places are taken. */
  #keys: (K | undefined)[] = places(MIN_PLACES);
  #values: (V | undefined)[] = places(MIN_PLACES);
  #size = 0;

  /** @param hash any integer, of which the lower bits differ */
  constructor(hash: (key: K) => number) {
    this.#hash = hash;
  }

  get size(): number {
    return this.#size;
  }

  get(key: K): V | undefined {
    return this.#values[this.#placeOf(key)];
  }

  set(key: K, value: V): void {
    let place = this.#placeOf(key);
    if (this.#keys[place] === undefined) {
      if (this.#size * 2 >= this.#keys.length) {
        this.#resize(this.#keys.length * 2);
        place = this.#placeOf(key);
      }
      this.#keys[place] = key;
      this.#size += 1;
    }
    this.#values[place] = value;
  }

  delete(key: K): boolean {
    let gap = this.#placeOf(key);
    if (this.#keys[gap] === undefined) return false;
    const last = this.#keys.length - 1;
    // What follows closes up, so that there is no gap between an entry and where it belongs.
    for (let place = (gap + 1) & last; ; place = (place + 1) & last) {
      const next = this.#keys[place];
      if (next === undefined) break;
      const home = this.#hash(next) & last;
      if (((place - home) & last) < ((place - gap) & last)) continue;
      this.#keys[gap] = next;
      this.#values[gap] = this.#values[place];
      gap = place;
    }
    this.#keys[gap] = undefined;
    this.#values[gap] = undefined;
    this.#size -= 1;
    return true;
  }

  /** The values, in no order; the map must not change meanwhile. */
  *[Symbol.iterator](): Generator<V> {
    for (let place = 0; place < this.#keys.length; place++) {
      const value = this.#values[place];
      if (this.#keys[place] !== undefined && value !== undefined) yield value;
    }
  }

  /** Where the key is, or would be. */
  #placeOf(key: K): number {
    const last = this.#keys.length - 1;
    let place = this.#hash(key) & last;
    for (let found = this.#keys[place]; found !== undefined && found !== key; found = this.#keys[place]) {
      place = (place + 1) & last;
    }
    return place;
  }

  #resize(length: number): void {
    const [keys, values] = [this.#keys, this.#values];
    this.#keys = places(length);
    this.#values = places(length);
    for (const [i, key] of keys.entries()) {
      if (key === undefined) continue;
      const place = this.#placeOf(key);
      this.#keys[place] = key;
      this.#values[place] = values[i];
    }
  }
}

/** A hash of whole numbers: those that follow one another do not stand side by side, where one that stays would be in the way of all others. */
export function spread(number: number): number {
  const mixed = Math.imul(number, 0x9e3779b1);
  return mixed ^ (mixed >>> 15);
}

function places<T>(length: number): (T | undefined)[] {
  return Array.from({ length }, () => undefined);
}
