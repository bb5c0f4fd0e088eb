/** Versions of one model that share its requests: each client's requests go to one version. */
import type { NewPrediction, Predictions } from "./predictions.ts";
import type { Kind } from "./record.ts";

/** A version of the model, and its share of the requests. */
export interface SplitShare {
  /** Name of this version in paths, `/models/NAME`. */
  readonly name: string;
  /** Share of the requests, relative to the weights of the other versions. */
  readonly weight: number;
}

/** Request header that identifies a client. The client or a proxy sets it. */
export const CLIENT_ID = "X-Client-Id";

/** The client of a request: its API key, else `X-Client-Id`, else its address. */
export function clientIdOf({ headers }: Request, key: string | undefined, address: string | undefined): string {
  // Each proxy appends an address to X-Forwarded-For, so the first is the client's.
  const forwarded = headers.get("x-forwarded-for")?.split(",")[0]?.trim();
  return key ?? headers.get(CLIENT_ID) ?? forwarded ?? address ?? "";
}

/**
 * Selects the version for a client by weighted rendezvous hashing (Wang and Ravishankar, 1998). A changed weight moves
 * as few clients as possible to another version. All processes select the same version.
 * @returns undefined if no version has a weight above 0
 */
export function versionOf<V extends { readonly name: string; readonly weight: number }>(
  client: string,
  versions: readonly V[],
): V | undefined {
  let chosen: V | undefined;
  let least = Infinity;
  for (const version of versions) {
    // Never 0 or 1, so that the logarithm is finite and not 0.
    const hash = (Bun.hash.xxHash32(`${version.name}\n${client}`) + 0.5) / 2 ** 32;
    const distance = -Math.log(hash) / version.weight;
    if (distance >= least) continue;
    least = distance;
    chosen = version;
  }
  return chosen;
}

/** Creates predictions with one version. Reads and cancels the predictions of all versions. */
export class SplitPredictions implements Predictions {
  readonly #own: Predictions;
  readonly #all: readonly Predictions[];
  readonly #creating: Map<string, Predictions>;

  /**
   * @param creating for each id that a client chose, the version that is creating the prediction; shared by all
   * versions
   */
  constructor(own: Predictions, others: readonly Predictions[], creating: Map<string, Predictions>) {
    this.#creating = creating;
    this.#own = own;
    this.#all = [own, ...others];
  }

  admit(...asked: Parameters<Predictions["admit"]>): void {
    this.#own.admit(...asked);
  }

  create(request: NewPrediction): ReturnType<Predictions["create"]> {
    return request.once === undefined ? this.#own.create(request) : this.#createOnce(request, request.once.id);
  }

  /** Creates a prediction with an id that the client chose, unless any version already has the id. */
  async #createOnce(request: NewPrediction, id: string): ReturnType<Predictions["create"]> {
    using unused = new DisposableStack();
    unused.use(request.charge);
    const found = await this.#first(async (each) => (await each.get(request.kind, id)) && each);
    unused.move();
    // A repeated request goes to the version of the first request, which returns the same prediction.
    const creator = this.#creating.get(id) ?? found ?? this.#own;
    this.#creating.set(id, creator);
    try {
      return await creator.create(request);
    } finally {
      this.#creating.delete(id);
    }
  }

  get(kind: Kind, id: string): ReturnType<Predictions["get"]> {
    return this.#first((each) => each.get(kind, id));
  }

  cancel(kind: Kind, id: string): ReturnType<Predictions["cancel"]> {
    return this.#first((each) => each.cancel(kind, id));
  }

  wait(kind: Kind, id: string, options: Parameters<Predictions["wait"]>[2]): ReturnType<Predictions["wait"]> {
    return this.#first((each) => each.wait(kind, id, options));
  }

  watch(kind: Kind, id: string, changed: () => void): ReturnType<Predictions["watch"]> {
    return this.#first((each) => each.watch(kind, id, changed));
  }

  async #first<T>(find: (predictions: Predictions) => Promise<T | undefined>): Promise<T | undefined> {
    for (const each of this.#all) {
      const found = await find(each);
      if (found !== undefined) return found;
    }
    return undefined;
  }
}
