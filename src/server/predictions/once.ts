/** Predictions whose ids their clients chose: each is created once, however often it is sent. */
import { SconceError } from "../../base/errors.ts";
import type { Body } from "../inputs/bodies.ts";
import type { Charge } from "../memory/charge.ts";
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

/** A prediction, and of which body it is. */
export interface Known {
  readonly record: PredictionRecord;
  readonly digest: string | undefined;
}

/** Creates predictions one after the other that have the same id, in the order in which they came. */
export class Creations {
  readonly #find: (id: string) => Promise<Known | undefined>;
  readonly #last = new Map<string, Promise<unknown>>();

  constructor(find: (id: string) => Promise<Known | undefined>) {
    this.#find = find;
  }

  /**
   * @param charge of what is not needed where there is one already; `create` is given it
   * @returns the one that there is, or what `create` made
   * @throws SconceError `prediction_differs`
   */
  run(once: Once, charge: Charge, create: () => Promise<PredictionRecord>): Promise<PredictionRecord> {
    const { id } = once;
    const task = async () => {
      using unused = new DisposableStack();
      unused.use(charge);
      const known = await this.known(once);
      if (known !== undefined) return known;
      unused.move();
      return create();
    };
    const before = this.#last.get(id);
    const turn = before === undefined ? task() : before.then(task, task);
    this.#last.set(id, turn);
    const end = () => this.#last.get(id) === turn && this.#last.delete(id);
    turn.then(end, end);
    return turn;
  }

  /** @throws SconceError `prediction_differs` where a prediction with this id was made of another body */
  async known({ id, digest }: Once): Promise<PredictionRecord | undefined> {
    const known = await this.#find(id);
    if (known === undefined || known.digest === digest) return known?.record;
    const message =
      "there is a prediction of another body with this id or Idempotency-Key: send this one with a new one";
    throw new SconceError("prediction_differs", message);
  }
}
