/** What is still to be written of one prediction. */
import type { EndedRecord } from "../record.ts";
import type { KeptRequest } from "../store.ts";

interface Told {
  /** In the order in which the store was told; what replaces another change takes its number. */
  readonly number: number;
  readonly id: string;
}

/** Told when a request is kept, or cannot be. */
export interface Waiting {
  resolve(): void;
  reject(error: unknown): void;
}

export interface CreateChange extends Told {
  readonly op: "create";
  readonly request: KeptRequest;
  /** Where the body lies, if not in the row. */
  readonly file: string | undefined;
  /** By the monotonic clock. */
  readonly toldMs: number;
  readonly begunAtMs: number | undefined;
  readonly waiting: Waiting;
}

export interface BegunChange extends Told {
  readonly op: "begun";
  /** Undefined: not any more. */
  readonly begunAtMs: number | undefined;
}

export interface EndChange extends Told {
  readonly op: "end";
  readonly record: EndedRecord;
  /** That it counts with. */
  readonly bytes: number;
  /** Where members and logs lie, if not in the row. */
  readonly file: string | undefined;
  /** By the monotonic clock. */
  readonly toldMs: number;
  /** The request may be in the database. */
  readonly isCreated: boolean;
  /** Of a creation that this replaces. */
  readonly waiting: Waiting | undefined;
}

/** An unfinished row goes without an outcome: retention dropped that before it could be written. */
export interface DropChange extends Told {
  readonly op: "drop";
}

export type Change = CreateChange | BegunChange | EndChange | DropChange;

/** One change for two of the same prediction: only its last state is written, and its first outcome stands. */
export function merged(earlier: Change | undefined, later: Change): Change {
  if (earlier === undefined) return later;
  const { number } = earlier;
  switch (earlier.op) {
    case "end":
      return earlier;
    case "drop":
      // Its client sent it again, as it could be read no longer.
      return later.op === "create" ? { ...later, number } : earlier;
    case "begun":
      return { ...later, number };
    case "create":
      if (later.op === "begun") return { ...earlier, begunAtMs: later.begunAtMs };
      return later.op === "end" ? { ...later, number, waiting: earlier.waiting } : earlier;
  }
}
