/** Versions of a model that share its traffic by weights. A client stays with its version, and reads the predictions of all versions. */
import type { NewPrediction, Predictions } from "./predictions.ts";
import type { Kind } from "./record.ts";

/** The part of a version in the traffic of a model. */
export interface SplitShare {
  /** Name of the model in paths. */
  readonly name: string;
  /** Relative to the weights of the other versions. */
  readonly weight: number;
}

/** Header with the id of a client, from the client or from a proxy. */
export const CLIENT_ID = "X-Client-Id";

/** Identifies the client of a request: its API key, else the header, else its address. */
export function clientIdOf({ headers }: Request, key: string | undefined, address: string | undefined): string {
  // Proxies append to X-Forwarded-For: the first address is the client's.
  const forwarded = headers.get("x-forwarded-for")?.split(",")[0]?.trim();
  return key ?? headers.get(CLIENT_ID) ?? forwarded ?? address ?? "";
}

/**
 * The version of a client, by weighted rendezvous hashing (Wang and Ravishankar, 1998): another weight or another version moves as few clients
 * as possible. All processes and all starts of a server choose the same version.
 * @returns undefined if no version has a weight
 */
export function versionOf<V extends { readonly name: string; readonly weight: number }>(
  client: string,
  versions: readonly V[],
): V | undefined {
  let chosen: V | undefined;
  let least = Infinity;
  for (const version of versions) {
    // Between 0 and 1, without both.
    const hash = (Bun.hash.xxHash32(`${version.name}\n${client}`) + 0.5) / 2 ** 32;
    const distance = -Math.log(hash) / version.weight;
    if (distance >= least) continue;
    least = distance;
    chosen = version;
  }
  return chosen;
}

/** The predictions of a version, and for reads also the predictions of the other versions. */
export class SplitPredictions implements Predictions {
  readonly #own: Predictions;
  readonly #all: readonly Predictions[];
  readonly #creating: Map<string, Predictions>;

  /** @param creating the versions that create predictions with client-chosen ids now, for all versions of a split */
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

  /** Another version may have created a prediction with an id that the client chose. */
  async #createOnce(request: NewPrediction, id: string): ReturnType<Predictions["create"]> {
    using unused = new DisposableStack();
    unused.use(request.charge);
    const found = await this.#first(async (each) => (await each.get(request.kind, id)) && each);
    unused.move();
    // Each version creates a prediction once. So a repeated request goes to the same version.
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
