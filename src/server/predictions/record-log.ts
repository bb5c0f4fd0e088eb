/**
 * Ended records in the order in which they came, as bytes: as objects each collection of garbage would look at hundreds of thousands of them,
 * and hold up everybody meanwhile.
 */
import { OpenMap, spread } from "../../base/collections/open-map.ts";
import { byteLengthOf } from "./large-text.ts";
import type { EndedRecord } from "./record.ts";

/** Bytes that are taken, and let go, at a time. */
const SLAB_BYTES = 2 ** 20;
/** A record with more characters stays an object: there cannot be many such. */
const MAX_LENGTH = 16 * 1024;
/** Of one UTF-16 unit in UTF-8, at most. */
const BYTES_PER_UNIT = 3;

/** Where a record has its numbers, of 8 bytes each. Its texts come after them: id, digest and members, then logs. */
const field = {
  keptMs: 0,
  /** Of outcome and logs, as UTF-8. */
  textBytes: 1,
  hash: 2,
  createdAtMs: 3,
  /** NaN where it never started. */
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
  /** It was dropped, and others before it were not. */
  isGone: 14,
} as const;
const HEAD_BYTES = 8 * Object.keys(field).length;

interface Slab {
  readonly texts: Buffer;
  /** The same bytes. */
  readonly numbers: Float64Array;
  /** Where the last record ends. */
  end: number;
}

/** Where a record is; a later one has a greater number. */
export type Place = number;

export class RecordLog {
  /** Oldest first. */
  readonly #slabs: Slab[] = [];
  /** Slabs that were let go. */
  #gone = 0;
  /** Of the oldest record, in the first slab. */
  #first = 0;
  readonly #large = new OpenMap<Place, EndedRecord>(spread);
  /** Used again, so that there is no new memory for each. */
  #spare: Slab | undefined;

  /** Where the oldest record is. */
  get first(): Place | undefined {
    const [slab] = this.#slabs;
    return slab === undefined || this.#first === slab.end ? undefined : this.#gone * SLAB_BYTES + this.#first;
  }

  /**
   * @param keptMs by its keeper's clock
   * @param hash of its id
   */
  push(record: EndedRecord, keptMs: number, hash: number): Place {
    const { id, digest = "", outcome, logs, startedAtMs = Number.NaN } = record;
    const { members } = outcome;
    const length = id.length + digest.length + members.length + logs.length;
    // In UTF-8 half a character would become another one.
    const isLarge = typeof members !== "string" || length > MAX_LENGTH || (logs !== "" && !logs.isWellFormed());
    const slab = this.#slabFor(HEAD_BYTES + (isLarge ? id.length : length) * BYTES_PER_UNIT);
    const start = slab.end;
    const { numbers, texts } = slab;
    // An id and a digest are ASCII.
    const head = id.length + (isLarge ? 0 : digest.length);
    const from = start + HEAD_BYTES;
    const written = texts.write(isLarge ? id : id + digest + members, from);
    const logsBytes = isLarge || logs === "" ? 0 : texts.write(logs, from + written);
    const at = start / 8;
    numbers[at + field.keptMs] = keptMs;
    numbers[at + field.textBytes] = isLarge
      ? byteLengthOf(members) + Buffer.byteLength(logs)
      : written - head + logsBytes;
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
    numbers[at + field.isGone] = 0;
    slab.end = aligned(from + written + logsBytes);
    const place = (this.#gone + this.#slabs.length - 1) * SLAB_BYTES + start;
    if (isLarge) this.#large.set(place, record);
    return place;
  }

  keptMs(place: Place): number {
    return this.#number(place, field.keptMs);
  }

  textBytes(place: Place): number {
    return this.#number(place, field.textBytes);
  }

  hash(place: Place): number {
    return this.#number(place, field.hash);
  }

  id(place: Place): string {
    const start = (place % SLAB_BYTES) + HEAD_BYTES;
    return this.#slab(place).texts.toString("latin1", start, start + this.#number(place, field.idLength));
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
    };
  }

  /** Forgets a record: its memory is let go of with that of all before it. */
  drop(place: Place): void {
    this.#large.delete(place);
    this.#slab(place).numbers[(place % SLAB_BYTES) / 8 + field.isGone] = 1;
    for (let oldest = this.first; oldest !== undefined; oldest = this.first) {
      if (this.#number(oldest, field.isGone) === 0) return;
      this.#pass(oldest);
    }
  }

  /** Goes on from the oldest record to the one after it. */
  #pass(oldest: Place): void {
    const [slab] = this.#slabs;
    let end = this.#first + HEAD_BYTES;
    for (const name of textFields) end += this.#number(oldest, name);
    this.#first = aligned(end);
    if (slab === undefined || this.#first < slab.end) return;
    this.#slabs.shift();
    this.#gone += 1;
    this.#first = 0;
    slab.end = 0;
    this.#spare = slab;
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
    const slab = this.#slabs[Math.floor(place / SLAB_BYTES) - this.#gone];
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
