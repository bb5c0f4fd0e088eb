/** Runs predictions for the APIs of other servers. Their clients expect outputs in the answer, so requests wait for the end of the prediction. */
import type { Context } from "hono";
import { type Body, HELD_PER_BYTE, LARGE_BYTES, valueBytes } from "../../pipeline/inputs/body.ts";
import type { InputValues } from "../../pipeline/inputs/input-decoder.ts";
import { parseJson, utf8 } from "../../pipeline/inputs/input-decoder.ts";
import { COST_RULE, MAX_COST, sizeOfJson } from "../../pipeline/inputs/json-size.ts";
import { inTurn, TURN_BYTES } from "../../pipeline/inputs/loop-turns.ts";
import type { ItemFault } from "../../pipeline/item-fault.ts";
import { type Charge, memoryFull } from "../../pipeline/memory/charge.ts";
import type { MemoryAccount } from "../../pipeline/memory/memory-account.ts";
import { listIn } from "../../predictions/outcome-list.ts";
import type { Predictions } from "../../predictions/predictions.ts";
import { CANCELED, type PredictionRecord, statusOf } from "../../predictions/record.ts";
import type { Origin } from "../../predictions/request.ts";
import {
  announcedBytes,
  type BodyLimits,
  MAX_MESSAGE_BYTES,
  maxBytesOf,
  messageTooLarge,
  type ReadBody,
  type ReadBytes,
  readBytes,
} from "../body-reader.ts";
import { type ClientOptions, RequestClient } from "../client.ts";
import type { HttpOptions } from "../options.ts";
import { ProblemError } from "../problem.ts";
import { contextOf } from "../request.ts";
import type { ServedModel } from "../served-model.ts";
import type { Uploads } from "../uploads.ts";

export interface WaitedOptions extends ClientOptions {
  readonly memory: MemoryAccount;
  readonly uploads: Uploads;
  readonly config: HttpOptions;
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
    };

/** The largest delay of setTimeout(). Predictions end earlier. */
const MAX_WAIT_MS = 2 ** 31 - 1;

export class WaitedPredictions {
  readonly #options: WaitedOptions;
  readonly #predictions: Predictions;
  readonly #limits: BodyLimits;

  constructor(options: WaitedOptions, { predictions }: Pick<ServedModel, "predictions">) {
    const { memory, uploads, config } = options;
    this.#options = options;
    this.#predictions = predictions;
    this.#limits = { maxBytes: config.maxBodyBytes, memory, uploads };
  }

  /**
   * Reads the JSON of a request. Refuses the request before reading if the queue is full.
   * @param isMessage whether the whole body is JSON for `parseMessage`
   * @throws SconceError `queue_full`, `not_ready`; ProblemError 400, 408, 413 or 415
   */
  async read(c: Context, { isMessage }: Pick<BodyLimits, "isMessage">): Promise<ReadBytes> {
    const limits = { ...this.#limits, isMessage };
    const bytes = announcedBytes(c.req.raw.headers) ?? 0;
    // A body above the limit gets 413 later, so the queue is not checked. A 429 would invite a retry, which cannot succeed.
    if (bytes <= maxBytesOf(limits)) this.#predictions.admit({ ...this.#asked(c), bytes });
    return readBytes(c.req.raw, limits);
  }

  /**
   * Runs a prediction and waits for its end. Cancels it if the client disconnects. Disposes `charge`, even after an error.
   * @throws SconceError `body_invalid`, `inputs_invalid`, `queue_full`, `not_ready`
   */
  async run(c: Context, { inputs, bytes, charge, timeoutMs }: WaitedRequest, origin: Origin): Promise<Ended> {
    const length = typeof inputs === "string" ? inputs.length : 0;
    try {
      charge.mustGrow(HELD_PER_BYTE * Math.max(0, length - bytes));
    } catch (error) {
      charge[Symbol.dispose]();
      throw error;
    }
    const asked = { ...this.#asked(c), bytes: Math.max(bytes, length), timeoutMs };
    const body = typeof inputs === "string" ? bodyOf(inputs) : inputs;
    const record = await this.#predictions.create({ ...asked, kind: "prediction", body, charge, origin });
    Object.assign(contextOf(c), { model: record.model, predictionStatus: statusOf(record) });
    return endOf(record);
  }

  /**
   * Runs a prediction with the inputs as a JSON list, whose memory is not counted yet. Otherwise like `run`.
   * @throws SconceError `inputs_invalid`, `queue_full`, `not_ready`
   */
  async runText(c: Context, inputs: string): Promise<Ended> {
    const charge = this.#options.memory.take("bodies", HELD_PER_BYTE * inputs.length);
    if (charge === undefined) throw memoryFull();
    return this.run(c, { inputs, bytes: inputs.length, charge }, contextOf(c));
  }

  #asked(c: Context) {
    const client = new RequestClient(c.req.raw, this.#options, contextOf(c));
    return { timeoutMs: undefined, waitMs: MAX_WAIT_MS, client };
  }
}

/** Reads a message even if the queue is full, since the request may not start a prediction. */
export function readMessage(raw: Request, { memory, uploads, config }: WaitedOptions): Promise<ReadBytes> {
  return readBytes(raw, { maxBytes: config.maxBodyBytes, memory, uploads, isMessage: true });
}

/**
 * Parses the JSON of a message in a turn of the event loop.
 * @param charge gets the memory of the values
 * @param read converts the value in the same turn
 * @param maxCost most values, as `sizeOfJson` counts them
 * @throws ProblemError 413 for a message with too many values; SconceError `body_invalid`, `queue_full`; errors of `read`
 */
export async function parseMessage<T>(
  bytes: Uint8Array,
  charge: Charge,
  read: (value: unknown) => T,
  maxCost = MAX_COST,
): Promise<T> {
  if (bytes.length <= TURN_BYTES) return read(parseJson(utf8(bytes)));
  if (bytes.length > MAX_MESSAGE_BYTES) throw messageTooLarge();
  const size = sizeOfJson(bytes);
  if (size.cost > maxCost) throw tooManyValues(maxCost);
  charge.mustGrow(valueBytes(size, bytes.length));
  return inTurn(() => read(parseJson(utf8(bytes))));
}

/** The error for a message whose values the event loop would parse or check too long. */
export function tooManyValues(maxCost = MAX_COST): ProblemError {
  const detail = `JSON may have at most ${maxCost} values here (${COST_RULE}); send fewer inputs at once, or arrays as bytes`;
  return new ProblemError({ code: "body_too_large", detail });
}

/** Converts large inputs to bytes, which a worker thread can check. */
function bodyOf(inputs: string): Body {
  return inputs.length > LARGE_BYTES ? [new TextEncoder().encode(inputs)] : inputs;
}

function endOf({ id, outcome }: PredictionRecord): Ended {
  if (outcome?.status === "success") return { ok: true, id, outputs: listIn(outcome.members, "outputs") ?? [] };
  const { error_message: message = CANCELED, errors = [] } = JSON.parse(`{${outcome?.members ?? ""}}`);
  return { ok: false, id, message, errors };
}
