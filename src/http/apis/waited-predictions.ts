/** Runs predictions for the APIs of other servers. Their clients expect outputs in the answer, so requests wait for the end of the prediction. */
import type { Context } from "hono";
import { type Body, HELD_PER_BYTE, LARGE_BYTES } from "../../pipeline/inputs/body.ts";
import type { InputValues } from "../../pipeline/inputs/input-decoder.ts";
import type { ItemFault } from "../../pipeline/item-fault.ts";
import { CANCELED, statusOf } from "../../predictions/record.ts";
import { announcedBytes, type ReadBody } from "../body-reader.ts";
import { contextOf } from "../request.ts";
import type { ServedModel } from "../served-model.ts";

/** The inputs of a request, with the charge for their memory. */
export interface WaitedRequest extends Omit<ReadBody, "body"> {
  /** The inputs as a JSON list, or as values. */
  readonly inputs: string | InputValues;
  /** The client's time limit in milliseconds. The server's time limit applies too. */
  readonly timeoutMs?: number | undefined;
}

export interface Succeeded {
  readonly ok: true;
  readonly id: string;
  /** Outputs in the order of the inputs. */
  readonly outputs: readonly unknown[];
}

export interface Failed {
  readonly ok: false;
  readonly message: string;
  readonly errors: readonly ItemFault[];
}

/** The largest delay of setTimeout(). Predictions end earlier. */
const MAX_WAIT_MS = 2 ** 31 - 1;

/**
 * Refuses a request before its body is read, if the model would refuse its prediction.
 * @throws SconceError `queue_full`, `not_ready`
 */
export function admit(c: Context, { predictions }: Pick<ServedModel, "predictions">, maxBytes: number): void {
  const bytes = announcedBytes(c.req.raw.headers) ?? 0;
  // A body above the limit gets 413 later, so the queue is not checked. A 429 would invite a retry, which cannot succeed.
  if (bytes <= maxBytes) predictions.admit({ ...askedBy(c), timeoutMs: undefined, bytes });
}

/**
 * Runs a prediction and waits for its end. Cancels it if the client disconnects. Disposes `charge`, even after an error.
 * @throws SconceError `body_invalid`, `inputs_invalid`, `queue_full`, `not_ready`
 */
export async function runInputs(
  c: Context,
  { predictions }: Pick<ServedModel, "predictions">,
  { inputs, bytes: bodyBytes, charge, timeoutMs }: WaitedRequest,
): Promise<Succeeded | Failed> {
  using releasing = new DisposableStack();
  releasing.use(charge);
  const bytes = typeof inputs === "string" ? Math.max(bodyBytes, inputs.length) : bodyBytes;
  charge.mustGrow(HELD_PER_BYTE * (bytes - bodyBytes));
  releasing.move();
  const body = typeof inputs === "string" ? bodyOf(inputs) : inputs;
  const request = { ...askedBy(c), bytes, timeoutMs, kind: "prediction", body, charge, origin: contextOf(c) } as const;
  const record = await predictions.create(request);
  Object.assign(contextOf(c), { model: record.model, predictionStatus: statusOf(record) });
  const { id, outcome } = record;
  const { outputs, error_message: message = CANCELED, errors = [] } = JSON.parse(`{${outcome?.members ?? ""}}`);
  return outcome?.status === "success" ? { ok: true, id, outputs } : { ok: false, message, errors };
}

function askedBy(c: Context) {
  return { waitMs: MAX_WAIT_MS, client: contextOf(c) };
}

/** Converts large inputs to bytes, which are checked in many turns of the event loop. */
function bodyOf(inputs: string): Body {
  return inputs.length > LARGE_BYTES ? [new TextEncoder().encode(inputs)] : inputs;
}
