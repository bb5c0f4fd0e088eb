/** Reads the JSON of a request to the OpenAI API, and runs its inputs as one prediction. */
import type { Context } from "hono";
import { hasCode, SconceError } from "../../../base/errors.ts";
import { isObject } from "../../../base/json.ts";
import { Turn } from "../../../base/turn.ts";
import type { ReadBody, ReadBytes } from "../../body-reader.ts";
import { ProblemError } from "../../problem.ts";
import { contextOf } from "../../request.ts";
import type { ServedModel, ServedName } from "../../served-model.ts";
import { type Ended, parseMessage, type WaitedPredictions } from "../waited-predictions.ts";
import { faultOfInputs, RequestFault } from "./errors.ts";

/** A request for a model. `G` is the type of its body after the checks. */
export interface AskedOptions<G> {
  readonly model: Pick<ServedModel, "name" | "tag" | "digest">;
  readonly predictions: WaitedPredictions;
  readonly read: ReadRequest<G>;
}

/** The JSON of a request, and the memory that is counted for it. */
export interface ReadRequest<G> extends Omit<ReadBody, "body"> {
  readonly given: G;
}

/** Reads a body and parses its JSON. @throws RequestFault; the errors of `WaitedPredictions.read` and `parseMessage` */
export async function readRequest(
  read: () => Promise<ReadBytes>,
): Promise<ReadRequest<Readonly<Record<string, unknown>>>> {
  const { body, bytes, charge } = await read();
  using releasing = new DisposableStack();
  releasing.use(charge);
  const given = await parseMessage(body, charge, objectOf);
  releasing.move();
  return { given, bytes, charge };
}

/** The members of a body. Some clients write null for a member that their caller leaves out. */
function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  if (isObject(value)) return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== null));
  throw new RequestFault('the body must be a JSON object, as {"model": …, "input": …}');
}

export interface Inputs {
  readonly inputs: readonly unknown[];
  /** Name of the member of the request that has the inputs, for error messages. */
  readonly param: string;
}

/**
 * Runs the inputs of a request as one prediction, and waits for its end.
 * @param inputsOf converts the JSON of the request to inputs of the model
 * @throws RequestFault; the errors of `WaitedPredictions.run`
 */
export async function predict<G, T extends Inputs>(
  c: Context,
  { predictions, read: { given, bytes, charge } }: AskedOptions<G>,
  inputsOf: (given: G) => T,
): Promise<{ readonly asked: T; readonly ended: Ended }> {
  using _ = charge;
  const asked = inputsOf(given);
  const { inputs, param } = asked;
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

/**
 * Finds the model that a request names; the first model if the request names none.
 * @throws RequestFault 404 if no model has the name; ProblemError 503 for a broken model
 */
export function modelNamed(asked: unknown, all: readonly ServedName[]): ServedModel {
  const found = all.find(
    ({ name, tag, digest }) =>
      asked === undefined || asked === name || asked === `${name}:${tag}` || asked === `${name}@${digest}`,
  );
  if (found?.model instanceof ProblemError) throw found.model;
  if (found !== undefined) return found.model;
  const names = all.map(({ name }) => `"${name}"`).join(", ");
  const detail = `there is no model ${JSON.stringify(asked)}; this server has ${names} (GET /v1/models)`;
  throw new RequestFault(detail, { problem: "not_found", param: "model", code: "model_not_found" });
}

/** Milliseconds of work after which other events of the event loop run. */
const MAX_HOLD_MS = 5;

/** Maps a list like Array.map(), but lets other requests run in between. */
export async function mapped<T, R>(values: readonly T[], map: (value: T, index: number) => R): Promise<R[]> {
  const results: R[] = [];
  const turn = new Turn(MAX_HOLD_MS);
  for (const [i, value] of values.entries()) {
    results.push(map(value, i));
    if (turn.isOver) await turn.next();
  }
  return results;
}
