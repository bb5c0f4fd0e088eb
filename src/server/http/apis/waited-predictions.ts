/** Runs predictions for the APIs of other servers. Their clients expect outputs in the answer, so requests wait for the end of the prediction. */
import type { Context } from "hono";
import type { ServeConfig } from "../../config.ts";
import type { ItemFault } from "../../flow/item-fault.ts";
import { type Body, HELD_PER_BYTE, LARGE_BYTES } from "../../inputs/bodies.ts";
import type { InputValues } from "../../inputs/input-decoder.ts";
import type { MemoryAccount } from "../../memory/memory-account.ts";
import { listIn } from "../../predictions/outcome-list.ts";
import type { Origin, Predictions, Watcher } from "../../predictions/predictions.ts";
import { CANCELED, hasEnded, type PredictionRecord, statusOf } from "../../predictions/record.ts";
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
  readonly config: ServeConfig;
}

/** The inputs of a request, and the memory that is counted for them. */
export interface WaitedRequest extends Omit<ReadBody, "body"> {
  /** The inputs as a JSON list, or as values. */
  readonly inputs: string | InputValues;
  /** The client's time limit in milliseconds. The server's time limit applies too. */
  readonly timeoutMs?: number | undefined;
}

export type Ended =
  | {
      readonly ok: true;
      readonly id: string;
      /** Outputs as JSON texts, in the order of the inputs. */
      readonly outputs: readonly string[];
    }
  | {
      readonly ok: false;
      readonly id: string;
      readonly message: string;
      readonly errors: readonly ItemFault[];
      readonly isCanceled: boolean;
    };

/** A prediction that may still run when its request is answered. */
export interface Begun {
  readonly id: string;
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
  /** The result; undefined while the prediction runs. */
  readonly ended: Ended | undefined;
}

export interface Beginning {
  /** The inputs as a JSON list. */
  readonly inputs: string;
  readonly origin: RequestContext;
  /** Maximum milliseconds to wait for the end; undefined: no limit. */
  readonly waitMs: number | undefined;
  readonly watcher?: Watcher | undefined;
}

/** The largest delay of setTimeout(). Predictions end earlier. */
const MAX_WAIT_MS = 2 ** 31 - 1;

export class WaitedPredictions {
  readonly #options: WaitedOptions;
  readonly #limits: BodyLimits;

  constructor(options: WaitedOptions) {
    const { memory, config } = options;
    this.#options = options;
    this.#limits = { maxBytes: config.maxBodyBytes, memory, uploads: new Uploads(), isAnyMedia: true };
  }

  /**
   * Reads the body of a request. Refuses the request before reading if the queue is full.
   * @throws SconceError `queue_full`, `not_ready`, `body_invalid`; ProblemError 400, 408, 413 or 415
   */
  async read(c: Context): Promise<ReadBody> {
    this.#admit(c);
    return readBody(c.req.raw, this.#limits);
  }

  /** Reads a body even if the queue is full, since the request may not start a prediction. */
  async readMessage(raw: Request): Promise<ReadBody> {
    return readBody(raw, this.#limits);
  }

  /** Reads a binary body. Refuses the request before reading if the queue is full. @throws like `read` */
  async readBytes(c: Context): Promise<ReadBytes> {
    this.#admit(c);
    return readBytes(c.req.raw, this.#limits);
  }

  #admit(c: Context): void {
    const { predictions, config } = this.#options;
    const bytes = announcedBytes(c.req.raw.headers) ?? 0;
    // A body above the limit gets 413 later, so the queue is not checked. A 429 would invite a retry, which cannot succeed.
    if (bytes <= config.maxBodyBytes) predictions.admit({ ...this.#asked(c), bytes });
  }

  /**
   * Runs a prediction and waits for its end. Cancels it if the client disconnects. Disposes `charge`, even after an error.
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
    Object.assign(contextOf(c), { model: record.model, predictionStatus: statusOf(record) });
    return endOf(record);
  }

  /**
   * Starts a prediction, and waits for its end or for `waitMs` milliseconds. Cancels it if the client disconnects during the wait.
   * @throws SconceError `inputs_invalid`, `queue_full`, `not_ready`
   */
  async begin(c: Context, { inputs, origin, waitMs = MAX_WAIT_MS, watcher }: Beginning): Promise<Begun> {
    const { predictions, memory } = this.#options;
    const charge = memory.take("bodies", HELD_PER_BYTE * inputs.length);
    if (charge === undefined) throw memoryFull();
    const asked = { ...this.#asked(c), bytes: inputs.length, waitMs };
    const body = bodyOf(inputs);
    const record = await predictions.create({ ...asked, kind: "prediction", body, charge, origin, watcher });
    Object.assign(contextOf(c), { model: record.model, predictionStatus: statusOf(record) });
    return begunOf(record);
  }

  /** Finds a prediction of the client; undefined for an unknown or expired id. */
  async find(c: Context, id: string): Promise<Begun | undefined> {
    const record = await this.#options.predictions.get("prediction", contextOf(c).ownId(id));
    return record && begunOf(record);
  }

  /** Cancels a prediction of the client; undefined for an unknown or expired id. */
  async cancel(c: Context, id: string): Promise<Begun | undefined> {
    const record = await this.#options.predictions.cancel("prediction", contextOf(c).ownId(id));
    return record && begunOf(record);
  }

  /**
   * Forwards a request with an unread body to the HTTP process that has the prediction.
   * @returns undefined if this process must answer
   */
  async forward(id: string, raw: Request, context: RequestContext): Promise<Response | undefined> {
    return this.#options.siblings?.forward(id, raw, context);
  }

  #asked(c: Context) {
    const client = new RequestClient(c.req.raw, this.#options, contextOf(c));
    return { timeoutMs: undefined, waitMs: MAX_WAIT_MS, client };
  }
}

/** Converts large inputs to bytes, which a worker thread can check. */
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
