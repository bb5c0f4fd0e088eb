/** Requests of this API: reads the JSON, and runs its inputs as one prediction. */
import type { Context } from "hono";
import { hasCode, SconceError } from "../../../../base/errors.ts";
import { isObject } from "../../../../base/json.ts";
import { Turn } from "../../../../base/turn.ts";
import type { ServedModel } from "../../app.ts";
import { announcedBytes, type ReadBody } from "../../body-reader.ts";
import { contextOf } from "../../request.ts";
import type { Ended, WaitedPredictions } from "../waited-predictions.ts";
import { faultOfInputs, RequestFault } from "./errors.ts";

/** The bodies are parsed on the thread that answers clients. */
const MAX_BYTES = 8 * 2 ** 20;
/** OpenAI's own limit. */
const MAX_INPUTS = 2048;

export type Given = Readonly<Record<string, unknown>>;

export interface AskedOptions {
  readonly model: Pick<ServedModel, "name" | "tag" | "digest">;
  readonly predictions: WaitedPredictions;
  readonly read: ReadRequest;
}

/** The JSON of a request, and the memory that it is charged. */
export interface ReadRequest extends Omit<ReadBody, "body"> {
  readonly given: Given;
}

/** @throws RequestFault; as `WaitedPredictions` */
export async function readRequest(c: Context, read: () => Promise<ReadBody>): Promise<ReadRequest> {
  checkSize(announcedBytes(c.req.raw.headers) ?? 0);
  const { body, bytes, charge } = await read();
  using releasing = new DisposableStack();
  releasing.use(charge);
  checkSize(bytes);
  const given = parsed(typeof body === "string" ? body : Buffer.concat([...body]).toString());
  releasing.move();
  return { given, bytes, charge };
}

export interface Inputs {
  /** Inputs of the model. */
  readonly inputs: readonly unknown[];
  /** Member of the request with the inputs, for messages. */
  readonly param: string;
}

/**
 * @param inputsOf makes the model's inputs of the request's JSON
 * @throws RequestFault; as `WaitedPredictions`
 */
export async function predict<T extends Inputs>(
  c: Context,
  { predictions, read: { given, bytes, charge } }: AskedOptions,
  inputsOf: (given: Given) => T,
): Promise<{ readonly asked: T; readonly ended: Ended }> {
  using _ = charge;
  const asked = inputsOf(given);
  const { inputs, param } = asked;
  if (inputs.length === 0) throw new RequestFault(`${param}: must not be empty`, { param });
  if (inputs.length > MAX_INPUTS) {
    throw new RequestFault(`${param}: must have at most ${MAX_INPUTS} elements, not ${inputs.length}`, { param });
  }
  try {
    const request = { inputs: JSON.stringify(inputs), bytes, charge };
    return { asked, ended: await predictions.run(c, request, contextOf(c)) };
  } catch (error) {
    if (error instanceof SconceError && hasCode(error, "inputs_invalid")) {
      throw faultOfInputs(error.faults ?? [{ pointer: "", detail: error.message }], param);
    }
    throw error;
  }
}

function checkSize(bytes: number): void {
  if (bytes <= MAX_BYTES) return;
  const detail = `a body may have at most ${MAX_BYTES} bytes; send fewer inputs at once, or use POST /predictions`;
  throw new RequestFault(detail, { status: 413, code: "body_too_large" });
}

function parsed(text: string): Given {
  let given: unknown;
  try {
    given = JSON.parse(text);
  } catch (error) {
    throw new RequestFault(`the body is not JSON: ${error instanceof Error ? error.message : error}`);
  }
  if (isObject(given)) return given;
  throw new RequestFault('the body must be a JSON object, as {"model": …, "input": …}');
}

/**
 * The model that a request names; without a name the first one.
 * @throws RequestFault 404 for a name that no model has
 */
export function modelNamed<M extends { readonly model: AskedOptions["model"] }>(asked: unknown, all: readonly M[]): M {
  const isAsked = ({ model: { name, tag, digest } }: M) =>
    asked === undefined || asked === name || asked === `${name}:${tag}` || asked === `${name}@${digest}`;
  const found = all.find(isAsked);
  if (found !== undefined) return found;
  const names = all.map(({ model }) => `"${model.name}"`).join(", ");
  const detail = `there is no model ${JSON.stringify(asked)}; this server has ${names} (GET /v1/models)`;
  throw new RequestFault(detail, { status: 404, param: "model", code: "model_not_found" });
}

/** Strings, from one string or a list. @throws RequestFault */
export function textsIn(given: unknown, param: string): readonly string[] {
  const texts = typeof given === "string" ? [given] : given;
  if (Array.isArray(texts) && texts.every((text) => typeof text === "string")) return texts;
  throw new RequestFault(`${param}: must be a text or a list of texts`, { param });
}

/** Time after which the event loop turns. */
const MAX_HOLD_MS = 5;

/** Maps a list. In between, the thread answers other requests. */
export async function mapped<T, R>(values: readonly T[], map: (value: T, index: number) => R): Promise<R[]> {
  const results: R[] = [];
  const turn = new Turn(MAX_HOLD_MS);
  for (const [i, value] of values.entries()) {
    results.push(map(value, i));
    if (turn.isOver) await turn.next();
  }
  return results;
}
