/** Predictions whose ids their clients chose: each is created once, however often it is sent. */
import { SconceError } from "../errors.ts";
import type { Body } from "../inputs/bodies.ts";
import type { Kind, PredictionRecord } from "./record.ts";

export interface Once {
  readonly id: string;
  /** Of the kind and the body. */
  readonly digest: string;
}

/** Bytes that are hashed before others have their turn: about a millisecond of work. */
const TURN_BYTES = 2 ** 20;

/** @param id as its client chose it, or made of its `Idempotency-Key` */
export async function onceOf(id: string, kind: Kind, body: Body): Promise<Once> {
  const hasher = new Bun.CryptoHasher("sha256");
  hasher.update(`${kind}\n`);
  if (typeof body === "string") hasher.update(body);
  else {
    let bytes = 0;
    for (const chunk of body) {
      hasher.update(chunk);
      bytes += chunk.length;
      if (bytes < TURN_BYTES) continue;
      bytes = 0;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
  return { id, digest: hasher.digest("base64url") };
}

/** @throws SconceError `prediction_differs` where a prediction with this id was made of another body */
export function checkSame(digest: PredictionRecord["digest"], once: Once): void {
  if (digest === once.digest) return;
  const message = "there is a prediction of another body with this id or Idempotency-Key: send this one with a new one";
  throw new SconceError("prediction_differs", message);
}

/** Tasks for one id after the other, in the order in which they came. */
export class InOrder {
  readonly #last = new Map<string, Promise<unknown>>();

  run<T>(id: string, task: () => Promise<T>): Promise<T> {
    const before = this.#last.get(id);
    const turn = before === undefined ? task() : before.then(task, task);
    this.#last.set(id, turn);
    const end = () => this.#last.get(id) === turn && this.#last.delete(id);
    turn.then(end, end);
    return turn;
  }
}
