/** Ended predictions in memory, as bytes: traversing many objects, the garbage collector would block the event loop. */
import { OpenMap, spread } from "../base/collections/open-map.ts";
import { hashOf } from "../base/id-hash.ts";
import { byteLengthOf } from "../base/large-text.ts";
import type { ModelVersion } from "../package/model-version.ts";
import type { EndedRecord } from "./record.ts";

/** Bytes of one buffer, in which records are stored one after another. */
const SLAB_BYTES = 2 ** 20;
/** A record with more characters is kept as an object. Memory has room for few such records. */
const MAX_LENGTH = 16 * 1024;
/** Maximum UTF-8 bytes of one UTF-16 code unit. */
const BYTES_PER_UNIT = 3;

/** Layout of a record: numbers of 8 bytes at these indices, followed by the id, digest, members and logs as text. */
const field = {
  keptMs: 0,
  /** Index of the count of UTF-8 bytes of the members and logs. */
  textBytes: 1,
  hash: 2,
  createdAtMs: 3,
  /** NaN for a prediction that ended before its first input ran. */
  startedAtMs: 4,
  finishedAtMs: 5,
  count: 6,
  itemsDone: 7,
  isDemo: 8,
  isFailed: 9,
  idLength: 10,
  digestLength: 11,
  membersBytes: 12,
  logsBytes: 13,
  /** Index in the list of model versions. */
  model: 14,
  /** Place of the next older record of the same list; -1 if there is none. */
  older: 15,
} as const;
const HEAD_BYTES = 8 * Object.keys(field).length;

interface Slab {
  readonly texts: Buffer;
  /** Views the memory of `texts` as numbers. */
  readonly numbers: Float64Array;
  /** Offset where the next record begins. */
  end: number;
}

/** Position of a record in the log. Newer records have larger positions. */
export type Place = number;

/** Number of lists of records. A list has the records whose hashes have the same lower bits, the newest first. */
const LISTS = 2 ** 19;

export class RecordLog {
  /**
   * By list, 1 more than the place of the newest record; 0 takes no memory before its first use. A place before the
   * oldest record belongs to a removed record.
   */
  readonly #newest = new Float64Array(LISTS);
  #size = 0;
  readonly #slabs: Slab[] = [];
  /** Number of buffers freed so far. */
  #freedSlabs = 0;
  /** Offset of the oldest record within the first buffer. */
  #first = 0;
  readonly #models: (ModelVersion | undefined)[] = [undefined];
  readonly #large = new OpenMap<Place, EndedRecord>(spread);
  /** An empty buffer for reuse. */
  #spare: Slab | undefined;

  /** Position of the oldest record; undefined if the log is empty. */
  get first(): Place | undefined {
    const slab = this.#slabs[0];
    return slab === undefined || this.#first === slab.end ? undefined : this.#freedSlabs * SLAB_BYTES + this.#first;
  }

  /** Number of records. */
  get size(): number {
    return this.#size;
  }

  /** The place of the record with this id; undefined if there is none. */
  find(id: string): Place | undefined {
    const { first = Infinity } = this;
    const hash = hashOf(id);
    let place = (this.#newest[hash & (LISTS - 1)] ?? 0) - 1;
    while (place >= first) {
      if (this.#number(place, field.hash) === hash && this.#id(place) === id) return place;
      place = this.#number(place, field.older);
    }
    return undefined;
  }

  /**
   * Appends a record, whose id no other record has.
   * @param keptMs time on the store's clock, in milliseconds
   */
  push(record: EndedRecord, keptMs: number): Place {
    const { id, digest = "", outcome, logs, startedAtMs = Number.NaN } = record;
    const { members } = outcome;
    const length = id.length + digest.length + members.length + logs.length;
    // UTF-8 cannot represent a lone surrogate, so a record whose logs contain one is kept as an object.
    const isLarge = typeof members !== "string" || length > MAX_LENGTH || (logs !== "" && !logs.isWellFormed());
    const slab = this.#slabFor(HEAD_BYTES + (isLarge ? id.length : length) * BYTES_PER_UNIT);
    const start = slab.end;
    const { numbers, texts } = slab;
    // The id and the digest are ASCII: one byte per character.
    const head = id.length + (isLarge ? 0 : digest.length);
    const from = start + HEAD_BYTES;
    const written = texts.write(isLarge ? id : id + digest + members, from);
    const logsBytes = isLarge || logs === "" ? 0 : texts.write(logs, from + written);
    const at = start / 8;
    numbers[at + field.keptMs] = keptMs;
    numbers[at + field.textBytes] = isLarge
      ? byteLengthOf(members) + Buffer.byteLength(logs)
      : written - head + logsBytes;
    const hash = hashOf(id);
    numbers[at + field.hash] = hash;
    numbers[at + field.createdAtMs] = record.createdAtMs;
    numbers[at + field.startedAtMs] = startedAtMs;
    numbers[at + field.finishedAtMs] = record.finishedAtMs;
    numbers[at + field.count] = record.count;
    numbers[at + field.itemsDone] = record.itemsDone;
    numbers[at + field.isDemo] = record.kind === "demo" ? 1 : 0;
    numbers[at + field.isFailed] = outcome.status === "failed" ? 1 : 0;
    numbers[at + field.idLength] = id.length;
    numbers[at + field.digestLength] = head - id.length;
    numbers[at + field.membersBytes] = written - head;
    numbers[at + field.logsBytes] = logsBytes;
    numbers[at + field.model] = this.#indexOf(record.model);
    slab.end = aligned(from + written + logsBytes);
    const place = (this.#freedSlabs + this.#slabs.length - 1) * SLAB_BYTES + start;
    if (isLarge) this.#large.set(place, record);
    const list = hash & (LISTS - 1);
    numbers[at + field.older] = (this.#newest[list] ?? 0) - 1;
    this.#newest[list] = place + 1;
    this.#size += 1;
    return place;
  }

  keptMs(place: Place): number {
    return this.#number(place, field.keptMs);
  }

  textBytes(place: Place): number {
    return this.#number(place, field.textBytes);
  }

  record(place: Place): EndedRecord {
    const large = this.#large.get(place);
    if (large !== undefined) return large;
    const { texts } = this.#slab(place);
    let at = (place % SLAB_BYTES) + HEAD_BYTES;
    const text = (bytes: number) => {
      at += bytes;
      return bytes === 0 ? "" : texts.toString("utf8", at - bytes, at);
    };
    const number = (name: keyof typeof field) => this.#number(place, field[name]);
    const [id, digest, members, logs] = [
      text(number("idLength")),
      text(number("digestLength")),
      text(number("membersBytes")),
      text(number("logsBytes")),
    ];
    const startedAtMs = number("startedAtMs");
    return {
      id,
      kind: number("isDemo") === 1 ? "demo" : "prediction",
      count: number("count"),
      itemsDone: number("itemsDone"),
      createdAtMs: number("createdAtMs"),
      startedAtMs: Number.isNaN(startedAtMs) ? undefined : startedAtMs,
      finishedAtMs: number("finishedAtMs"),
      outcome: { status: number("isFailed") === 1 ? "failed" : "success", members },
      logs,
      digest: digest === "" ? undefined : digest,
      model: this.#models[number("model")],
    };
  }

  /** Removes the oldest record. A buffer is reused when all its records are removed. */
  shift(): void {
    const oldest = this.first;
    if (oldest === undefined) return;
    this.#large.delete(oldest);
    this.#size -= 1;
    const [slab] = this.#slabs;
    let end = this.#first + HEAD_BYTES;
    for (const name of textFields) end += this.#number(oldest, name);
    this.#first = aligned(end);
    if (slab === undefined || this.#first < slab.end) return;
    this.#slabs.shift();
    this.#freedSlabs += 1;
    this.#first = 0;
    slab.end = 0;
    this.#spare = slab;
  }

  #id(place: Place): string {
    const start = (place % SLAB_BYTES) + HEAD_BYTES;
    return this.#slab(place).texts.toString("latin1", start, start + this.#number(place, field.idLength));
  }

  #indexOf(model: ModelVersion | undefined): number {
    const index = this.#models.lastIndexOf(model);
    return index < 0 ? this.#models.push(model) - 1 : index;
  }

  #slabFor(bytes: number): Slab {
    const last = this.#slabs.at(-1);
    if (last !== undefined && last.end + bytes <= SLAB_BYTES) return last;
    const slab = this.#spare ?? newSlab();
    this.#spare = undefined;
    this.#slabs.push(slab);
    return slab;
  }

  #slab(place: Place): Slab {
    const slab = this.#slabs[Math.floor(place / SLAB_BYTES) - this.#freedSlabs];
    if (slab === undefined) throw new RangeError(`There is no record at ${place}`);
    return slab;
  }

  #number(place: Place, index: number): number {
    return this.#slab(place).numbers[(place % SLAB_BYTES) / 8 + index] ?? Number.NaN;
  }
}

const textFields = [field.idLength, field.digestLength, field.membersBytes, field.logsBytes];

function newSlab(): Slab {
  const texts = Buffer.allocUnsafeSlow(SLAB_BYTES);
  return { texts, numbers: new Float64Array(texts.buffer), end: 0 };
}

function aligned(bytes: number): number {
  return Math.ceil(bytes / 8) * 8;
}
