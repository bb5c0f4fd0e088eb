/** Entries of the work as requests, whose bodies may lie elsewhere: those are got when they are asked for. */
import type { LeftRequest } from "../predictions/store.ts";
import type { LargeParts } from "./large-parts.ts";
import type { TakenRequest } from "./queue-messages.ts";
import { keptOf, type TakenEntry } from "./replies.ts";

export interface TakenBodiesOptions {
  /** Bodies in the bucket. */
  readonly large: LargeParts;
  /** Those in keys of their own. @returns the answer of Redis */
  readonly get: (id: string, bytes: number) => Promise<unknown>;
}

export class TakenBodies {
  readonly #options: TakenBodiesOptions;

  constructor(options: TakenBodiesOptions) {
    this.#options = options;
  }

  requestOf(entry: TakenEntry): TakenRequest {
    const { request, bytes, place } = entry;
    const { id, kind, count, leftMs } = request;
    return { id, kind, count, leftMs, bytes, hasLargeBody: place === "bucket", load: () => this.#load(entry) };
  }

  async #load({ request, bytes, place }: TakenEntry): Promise<LeftRequest> {
    if (place === "") return request;
    const { large, get } = this.#options;
    const beganMs = performance.now();
    const kept =
      place === "bucket" ? { body: (await large.body(request.id)) ?? "" } : keptOf(await get(request.id, bytes));
    return { ...request, ...kept, leftMs: request.leftMs - (performance.now() - beganMs) };
  }
}
