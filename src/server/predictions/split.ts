/** Versions of a model that share its requests by weights. Each client stays with one version, and can read the predictions of all versions. */
import type { NewPrediction, Predictions } from "./predictions.ts";
import type { Kind } from "./record.ts";

/** The share of one version in the requests for a model. */
export interface SplitShare {
  /** Name of the model in paths, `/models/NAME`. */
  readonly name: string;
  /** Relative to the weights of the model's other versions. */
  readonly weight: number;
}

/** Request header that identifies a client. The client or a proxy sets it. */
export const CLIENT_ID = "X-Client-Id";

/** Identifies the client of a request, by its API key, else by `X-Client-Id`, else by its address. */
export function clientIdOf({ headers }: Request, key: string | undefined, address: string | undefined): string {
  // Proxies append to X-Forwarded-For, so the client's address is the first.
  const forwarded = headers.get("x-forwarded-for")?.split(",")[0]?.trim();
  return key ?? headers.get(CLIENT_ID) ?? forwarded ?? address ?? "";
}

/**
 * The version for a client, by weighted rendezvous hashing (Wang and Ravishankar, 1998). When a weight or a version changes, as few clients as
 * possible change their version. Every process chooses the same version, also after a restart.
 * @returns undefined if no version has a weight above 0
 */
export function versionOf<V extends { readonly name: string; readonly weight: number }>(
  client: string,
  versions: readonly V[],
): V | undefined {
  let chosen: V | undefined;
  let least = Infinity;
  for (const version of versions) {
    // Between 0 and 1, but neither 0 nor 1.
    const hash = (Bun.hash.xxHash32(`${version.name}\n${client}`) + 0.5) / 2 ** 32;
    const distance = -Math.log(hash) / version.weight;
    if (distance >= least) continue;
    least = distance;
    chosen = version;
  }
  return chosen;
}

/** Creates predictions with one version. Reads the predictions of all versions. */
export class SplitPredictions implements Predictions {
  readonly #own: Predictions;
  readonly #all: readonly Predictions[];
  readonly #creating: Map<string, Predictions>;

  /** @param creating for each id that a client chose and whose request is in progress, the version that handles it */
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

  /** Creates a prediction with an id that the client chose, unless any version has one with this id. */
  async #createOnce(request: NewPrediction, id: string): ReturnType<Predictions["create"]> {
    using unused = new DisposableStack();
    unused.use(request.charge);
    const found = await this.#first(async (each) => (await each.get(request.kind, id)) && each);
    unused.move();
    // A repeated request goes to the version of the first request, which answers with the existing prediction.
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
