/** Predictions whose id the client chooses. A repeated request with the same id creates no second prediction. */
import { SconceError } from "../base/errors.ts";
import { Turn } from "../base/turn.ts";
import type { Body } from "../pipeline/inputs/body.ts";
import type { Charge } from "../pipeline/memory/charge.ts";
import type { Kind, PredictionRecord } from "./record.ts";
import type { Once } from "./request.ts";

/**
 * Computes the digest of a request whose id the client chose.
 * @param id sent by the client, or derived from its `Idempotency-Key`
 */
export async function onceOf(id: string, kind: Kind, body: Body): Promise<Once> {
  const hasher = new Bun.CryptoHasher("sha256");
  hasher.update(`${kind}\n`);
  if (typeof body === "string") hasher.update(body);
  else {
    const turn = new Turn();
    for (const chunk of body) {
      if (turn.isOver) await turn.next();
      hasher.update(chunk);
    }
  }
  return { id, digest: hasher.digest("base64url") };
}

/** Runs requests with the same id one after another, so that only the first creates a prediction. */
export class Creations {
  readonly #find: (id: string) => Promise<PredictionRecord | undefined>;
  readonly #last = new Map<string, Promise<unknown>>();

  constructor(find: (id: string) => Promise<PredictionRecord | undefined>) {
    this.#find = find;
  }

  /**
   * Returns the prediction with this id, or creates it.
   * @param charge memory of the request: `create` takes it over, and without `create` it is freed
   * @throws SconceError `prediction_differs` if the prediction has another body
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

  /**
   * The prediction with this id; undefined if there is none.
   * @throws SconceError `prediction_differs` if it has another body
   */
  async known({ id, digest }: Once): Promise<PredictionRecord | undefined> {
    const known = await this.#find(id);
    if (known === undefined || known.digest === digest) return known;
    const message =
      "there is a prediction of another body with this id or Idempotency-Key: send this one with a new one";
    throw new SconceError("prediction_differs", message);
  }
}
