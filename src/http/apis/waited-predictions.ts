/** Runs predictions for the APIs of other servers. Their clients expect outputs in the answer, so requests wait for the end of the prediction. */
import type { Context } from "hono";
import { type Body, HELD_PER_BYTE, LARGE_BYTES } from "../../pipeline/inputs/body.ts";
import type { InputValues } from "../../pipeline/inputs/input-decoder.ts";
import type { ItemFault } from "../../pipeline/item-fault.ts";
import { listIn } from "../../predictions/outcome-list.ts";
import { CANCELED, type PredictionRecord, statusOf } from "../../predictions/record.ts";
import type { Origin } from "../../predictions/request.ts";
import { announcedBytes, maxBytesOf, type ReadBody, type ReadBytes, readBytes } from "../body-reader.ts";
import { contextOf } from "../request.ts";
import type { ServedModel } from "../served-model.ts";
import type { MessageOptions } from "./message.ts";

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

type Model = Pick<ServedModel, "predictions">;

/** The largest delay of setTimeout(). Predictions end earlier. */
const MAX_WAIT_MS = 2 ** 31 - 1;

/**
 * Reads the body of a request. Refuses the request before reading if the queue is full.
 * @param isMessage whether the whole body is JSON for `parseMessage`
 * @throws SconceError `queue_full`, `not_ready`; ProblemError 400, 408, 413 or 415
 */
export async function readInputs(
  c: Context,
  { predictions }: Model,
  options: MessageOptions & { readonly isMessage: boolean },
): Promise<ReadBytes> {
  const limits = { ...options, maxBytes: options.config.maxBodyBytes };
  const bytes = announcedBytes(c.req.raw.headers) ?? 0;
  // A body above the limit gets 413 later, so the queue is not checked. A 429 would invite a retry, which cannot succeed.
  if (bytes <= maxBytesOf(limits)) predictions.admit({ ...askedBy(c), bytes });
  return readBytes(c.req.raw, limits);
}

/**
 * Runs a prediction and waits for its end. Cancels it if the client disconnects. Disposes `charge`, even after an error.
 * @throws SconceError `body_invalid`, `inputs_invalid`, `queue_full`, `not_ready`
 */
export async function runInputs(
  c: Context,
  { predictions }: Model,
  { inputs, bytes, charge, timeoutMs }: WaitedRequest,
  origin: Origin = contextOf(c),
): Promise<Ended> {
  const length = typeof inputs === "string" ? inputs.length : 0;
  try {
    charge.mustGrow(HELD_PER_BYTE * Math.max(0, length - bytes));
  } catch (error) {
    charge[Symbol.dispose]();
    throw error;
  }
  const asked = { ...askedBy(c), bytes: Math.max(bytes, length), timeoutMs };
  const body = typeof inputs === "string" ? bodyOf(inputs) : inputs;
  const record = await predictions.create({ ...asked, kind: "prediction", body, charge, origin });
  Object.assign(contextOf(c), { model: record.model, predictionStatus: statusOf(record) });
  return endOf(record);
}

function askedBy(c: Context) {
  return { timeoutMs: undefined, waitMs: MAX_WAIT_MS, client: contextOf(c) };
}

/** Converts large inputs to bytes, which are checked in parts. */
function bodyOf(inputs: string): Body {
  return inputs.length > LARGE_BYTES ? [new TextEncoder().encode(inputs)] : inputs;
}

function endOf({ id, outcome }: PredictionRecord): Ended {
  if (outcome?.status === "success") return { ok: true, id, outputs: listIn(outcome.members, "outputs") ?? [] };
  const { error_message: message = CANCELED, errors = [] } = JSON.parse(`{${outcome?.members ?? ""}}`);
  return { ok: false, id, message, errors };
}
