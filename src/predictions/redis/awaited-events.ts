/** Reads the outputs of a running prediction, and their parts, from Redis for the event streams of this replica. */
import type { Charge } from "../../pipeline/memory/charge.ts";
import { HELD_PER_OUTPUT_BYTE, type MemoryAccount } from "../../pipeline/memory/memory-account.ts";
import { byteLengthOf, type Text } from "../large-text.ts";
import { PartLog } from "../part-log.ts";
import type { EventPage, QueueEvents, ReadPage } from "./queue-events.ts";

export class AwaitedEvents implements Disposable {
  parts: PartLog | undefined;
  outputs: Text[] = [];
  readonly #id: string;
  readonly #memory: MemoryAccount;
  readonly #charge: Charge;
  readonly #onChange: () => void;
  #name = "";
  #readCount = 0;
  #isStale = false;
  #isWatching = false;
  /** Whether reading has stopped because memory is short or Redis lacks an event. Event streams then get the other outputs at the end. */
  #isStopped = false;
  #reading: Promise<void> | undefined;

  constructor(id: string, memory: MemoryAccount, onChange: () => void) {
    this.#id = id;
    this.#memory = memory;
    this.#charge = memory.add("outputs", 0);
    this.#onChange = onChange;
  }

  /** Reads all new events, and requests further events from the replica that runs the prediction. Never throws. */
  read(events: QueueEvents): Promise<void> {
    if (this.#isStopped) return Promise.resolve();
    this.#isStale = true;
    this.#reading ??= this.#readAll(events);
    return this.#reading;
  }

  [Symbol.dispose](): void {
    this.#isStopped = true;
    this.parts?.[Symbol.dispose]();
    this.#charge[Symbol.dispose]();
  }

  async #readAll(events: QueueEvents): Promise<void> {
    while (this.#isStale && !this.#isStopped) {
      this.#isStale = false;
      // A failed read is repeated after the next notification or poll.
      const page = await this.#page(events).catch(() => undefined);
      if (page === undefined || this.#isStopped) continue;
      if (page.name !== this.#name) this.#begin(page.name);
      this.#add(page);
      const isComplete = this.#readCount >= page.count;
      if (page.events.length === 0 && !isComplete) this.#isStopped = true;
      this.#isStale ||= !isComplete;
    }
    this.#reading = undefined;
  }

  async #page(events: QueueEvents): Promise<ReadPage | undefined> {
    if (!this.#isWatching) await events.watch(this.#id);
    this.#isWatching = true;
    return events.read(this.#id, { name: this.#name, from: this.#readCount });
  }

  /** Begins a log without events. A new name means that another replica runs the prediction from the start. */
  #begin(name: string): void {
    this.#name = name;
    this.#readCount = 0;
    this.outputs = [];
    this.#charge.grow(-this.#charge.bytes);
    this.parts?.[Symbol.dispose]();
    this.parts = new PartLog(this.#memory.add("outputs", 0), name);
  }

  #add({ events }: EventPage): void {
    this.#readCount += events.length;
    for (const event of events) {
      if (event === undefined) continue;
      const { index, sequence, text } = event;
      const bytes = HELD_PER_OUTPUT_BYTE * byteLengthOf(text);
      if (!this.#memory.hasRoom("outputs", bytes)) {
        this.#isStopped = true;
        return;
      }
      if (sequence === undefined) {
        this.#charge.grow(bytes);
        this.outputs[index] = text;
      } else {
        this.parts?.charge.grow(bytes);
        if (sequence === 0) this.parts?.restart(index);
        this.parts?.add(index, text);
      }
    }
    if (events.length > 0) this.#onChange();
  }
}
