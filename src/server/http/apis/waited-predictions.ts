/** Predictions for the APIs of other servers, whose answers wait for the outputs. */
import type { Context } from "hono";
import type { ItemFault } from "../../flow/item-fault.ts";
import { type Body, HELD_PER_BYTE, LARGE_BYTES } from "../../inputs/bodies.ts";
import type { InputValues } from "../../inputs/input-decoder.ts";
import type { MemoryAccount } from "../../memory/memory-account.ts";
import { listIn } from "../../predictions/outcome-list.ts";
import type { Origin, Predictions, Watcher } from "../../predictions/predictions.ts";
import { CANCELED, hasEnded, type PredictionRecord } from "../../predictions/record.ts";
import {
  announcedBytes,
  type BodyLimits,
  type ReadBody,
  type ReadBytes,
  readBody,
  readBytes,
  Uploads,
} from "../body-reader.ts";
import { type ClientOptions, RequestClient } from "../client.ts";
import { memoryFull } from "../problem.ts";
import { contextOf, type RequestContext } from "../request.ts";
import type { Siblings } from "../siblings.ts";

export interface WaitedOptions extends ClientOptions {
  readonly predictions: Predictions;
  readonly siblings?: Siblings | undefined;
  readonly memory: MemoryAccount;
  readonly maxBodyBytes: number;
}

/** The inputs of a request, and the memory that it is charged. */
export interface WaitedRequest extends Omit<ReadBody, "body"> {
  /** A JSON list of inputs, or their values. */
  readonly inputs: string | InputValues;
  /** Time limit of the client; the server's limit applies too. */
  readonly timeoutMs?: number | undefined;
}

/** How a prediction ended. */
export type Ended =
  | {
      readonly ok: true;
      readonly id: string;
      /** JSON texts, in the order of the inputs. */
      readonly outputs: readonly string[];
    }
  | {
      readonly ok: false;
      readonly id: string;
      readonly message: string;
      readonly errors: readonly ItemFault[];
      readonly isCanceled: boolean;
    };

/** A prediction that may go on after the answer to its request. */
export interface Begun {
  readonly id: string;
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
  /** Undefined while the prediction runs. */
  readonly ended: Ended | undefined;
}

export interface Beginning {
  /** A JSON list of inputs. */
  readonly inputs: string;
  readonly origin: RequestContext;
  /** Longest wait for the end; by default no limit. */
  readonly waitMs: number | undefined;
  readonly watcher?: Watcher | undefined;
}

/** Longest wait: predictions end earlier, by their own time limit. */
const MAX_WAIT_MS = 2 ** 31 - 1;

export class WaitedPredictions {
  readonly #options: WaitedOptions;
  readonly #limits: BodyLimits;

  constructor(options: WaitedOptions) {
    const { memory, maxBodyBytes: maxBytes } = options;
    this.#options = options;
    this.#limits = { maxBytes, memory, uploads: new Uploads(), isAnyMedia: true };
  }

  /**
   * Reads the body of a request. Refuses it first if the queue is full.
   * @throws SconceError `queue_full`, `not_ready`; ProblemError 400, 408 or 413
   */
  async read(c: Context): Promise<ReadBody> {
    this.#admit(c);
    return readBody(c.req.raw, this.#limits);
  }

  /** Reads the body of a request that may be no prediction. A full queue does not refuse it. */
  async readMessage(raw: Request): Promise<ReadBody> {
    return readBody(raw, this.#limits);
  }

  /** Like `read`, for a body that is not text. */
  async readBytes(c: Context): Promise<ReadBytes> {
    this.#admit(c);
    return readBytes(c.req.raw, this.#limits);
  }

  #admit(c: Context): void {
    const { predictions, maxBodyBytes } = this.#options;
    const bytes = announcedBytes(c.req.raw.headers) ?? 0;
    // An oversized body gets 413, since a retry cannot succeed.
    if (bytes <= maxBodyBytes) predictions.admit({ ...this.#asked(c), bytes });
  }

  /**
   * Runs a prediction and waits for its end. A client that disconnects cancels it. Releases `charge` in every case.
   * @throws SconceError `body_invalid`, `inputs_invalid`, `queue_full`, `not_ready`
   */
  async run(c: Context, { inputs, bytes, charge, timeoutMs }: WaitedRequest, origin: Origin): Promise<Ended> {
    const length = typeof inputs === "string" ? inputs.length : 0;
    if (!charge.tryGrow(HELD_PER_BYTE * Math.max(0, length - bytes))) {
      charge[Symbol.dispose]();
      throw memoryFull();
    }
    const asked = { ...this.#asked(c), bytes: Math.max(bytes, length), timeoutMs };
    const body = typeof inputs === "string" ? bodyOf(inputs) : inputs;
    const record = await this.#options.predictions.create({ ...asked, kind: "prediction", body, charge, origin });
    contextOf(c).model = record.model;
    return endOf(record);
  }

  /**
   * Runs a prediction and waits for its end, or for `waitMs`. A client that disconnects during the wait cancels it.
   * @throws SconceError `inputs_invalid`, `queue_full`, `not_ready`
   */
  async begin(c: Context, { inputs, origin, waitMs = MAX_WAIT_MS, watcher }: Beginning): Promise<Begun> {
    const { predictions, memory } = this.#options;
    const charge = memory.take("bodies", HELD_PER_BYTE * inputs.length);
    if (charge === undefined) throw memoryFull();
    const asked = { ...this.#asked(c), bytes: inputs.length, waitMs };
    const body = bodyOf(inputs);
    const record = await predictions.create({ ...asked, kind: "prediction", body, charge, origin, watcher });
    contextOf(c).model = record.model;
    return begunOf(record);
  }

  /** @returns undefined for an unknown or expired id */
  async find(c: Context, id: string): Promise<Begun | undefined> {
    const record = await this.#options.predictions.get("prediction", contextOf(c).ownId(id));
    return record && begunOf(record);
  }

  /** @returns undefined for an unknown or expired id */
  async cancel(c: Context, id: string): Promise<Begun | undefined> {
    const record = await this.#options.predictions.cancel("prediction", contextOf(c).ownId(id));
    return record && begunOf(record);
  }

  /** Forwards a request to the front that owns the prediction, before its body is read. @returns undefined for the owner */
  async forward(id: string, raw: Request, context: RequestContext): Promise<Response | undefined> {
    return this.#options.siblings?.forward(id, raw, context);
  }

  #asked(c: Context) {
    const client = new RequestClient(c.req.raw, this.#options, contextOf(c).key);
    return { timeoutMs: undefined, waitMs: MAX_WAIT_MS, client };
  }
}

/** Bodies in bytes are parsed on another thread if they are large. */
function bodyOf(inputs: string): Body {
  return inputs.length > LARGE_BYTES ? [new TextEncoder().encode(inputs)] : inputs;
}

function begunOf(record: PredictionRecord): Begun {
  const { id, createdAtMs, startedAtMs, finishedAtMs } = record;
  const updatedAtMs = finishedAtMs ?? startedAtMs ?? createdAtMs;
  return { id, createdAtMs, updatedAtMs, ended: hasEnded(record) ? endOf(record) : undefined };
}

function endOf({ id, outcome }: PredictionRecord): Ended {
  if (outcome?.status === "success") return { ok: true, id, outputs: listIn(outcome.members, "outputs") ?? [] };
  const { error_message: message = CANCELED, errors = [] } = JSON.parse(`{${outcome?.members ?? ""}}`);
  return { ok: false, id, message, errors, isCanceled: message === CANCELED };
}
