/**
 * The queue of ready items. Predictions take turns, items of a prediction keep their order, and items of a batch have
 * similar lengths.
 */

import { type Group, Lanes, type Line, type Queued } from "./lanes.ts";
import { near } from "./length-steps.ts";
import { PaddedBytes } from "./padded-bytes.ts";

export type { Group, Queued } from "./lanes.ts";

/** Default limit in bytes for the padded inputs of a batch. */
export const MAX_PADDED_BYTES = 256 * 2 ** 20;

/**
 * Limits the padded bytes of a new batch.
 * @returns a function that adds the first item of a line (one prediction's items of similar lengths) if it fits, and
 * returns whether it did. The first item of a batch always fits.
 */
function roomOf(maxBytes: number): (line: Line<Queued>) => boolean {
  const padded = new PaddedBytes();
  return ({ items: { first } }) =>
    first?.tensors === undefined || !first.padded?.size || padded.join(first.tensors, maxBytes);
}

/**
 * Items of similar lengths share a batch, so that padding is small (length bucketing, as `bucket_by_sequence_length` of
 * tf.data). The oldest item of the next prediction leads the batch. The items nearest in length follow.
 * - In each padded dimension, the longest item of a batch is less than √2 times the shortest plus 7.
 * - The padded batch has at most `maxBytes`. A single item may have more.
 * - A new prediction goes before the predictions of the last batch.
 */
export class FairQueue<T extends Queued> {
  readonly #lanes = new Lanes<T>();

  get length(): number {
    return this.#lanes.length;
  }

  add(item: T): void {
    this.#lanes.add(item);
  }

  /**
   * All groups, each with the items of one shape key. Groups of the prediction whose turn is next come first; within a
   * prediction, the group with the oldest item.
   */
  *groups(): Generator<Group<T>> {
    const seen = new Set<Group<T>>();
    for (const lane of this.#lanes.inTurn()) {
      for (const { bucket } of lane.inOrder()) {
        const { group } = bucket;
        if (seen.has(group)) continue;
        yield group;
        seen.add(group);
        if (seen.size === this.#lanes.groups.size) return;
      }
    }
  }

  /**
   * Takes up to `max` items of `group`: the oldest item of the next prediction, then the items nearest in length.
   * Predictions take turns.
   * @param maxBytes limit for the padded inputs; a single item may have more
   */
  take(group: Group<T>, max: number, maxBytes = MAX_PADDED_BYTES): T[] {
    const leader = this.#leader(group);
    if (leader === undefined) return [];
    this.#lanes.beginBatch();
    const hasRoomFor = roomOf(maxBytes);
    hasRoomFor(leader);
    const { steps } = leader.bucket;
    const batch = [this.#lanes.takeFirst(leader)];
    for (const { lines } of near(steps, group.buckets)) {
      for (let line = lines.first; line !== undefined; line = lines.first) {
        if (batch.length >= max || !hasRoomFor(line)) return batch;
        batch.push(this.#lanes.takeFirst(line));
      }
    }
    return batch;
  }

  remove(lane: object): T[] {
    return this.#lanes.remove(lane);
  }

  /**
   * The line of `group` whose first item leads the next batch. A line has one prediction's items of similar lengths.
   */
  #leader(group: Group<T>): Line<T> | undefined {
    for (const lane of this.#lanes.inTurn()) {
      const line = lane.inOrder().find(({ bucket }) => bucket.group === group);
      if (line !== undefined) return line;
    }
    return undefined;
  }
}
