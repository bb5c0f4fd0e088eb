/** Pulls models from registries, for `pull` and `serve`. */
import { formatBytes } from "../../../base/bytes.ts";
import { messageOf, SconceError } from "../../../base/errors.ts";
import { log } from "../../../base/log.ts";
import { Progress } from "../../../base/progress.ts";
import { isLoopback } from "../../../machine/network/loopback.ts";
import { type PullResult, pull } from "../../../package/registry/pull.ts";
import { Registry } from "../../../package/registry/registry.ts";
import {
  formatRemote,
  parseRemoteReference,
  type RemoteReference,
} from "../../../package/registry/remote-reference.ts";
import type { PackagedModel } from "../../../package/store/packaged-model.ts";
import { latestTag } from "../../../package/store/reference.ts";
import type { ModelStore } from "../../../package/store/store.ts";

/** Name of a pulled model in the store. `tag` is undefined for a pull by digest: the model then has only its generated tag. */
export interface LocalName {
  readonly repository: string;
  readonly tag: string | undefined;
}

export interface PullModelOptions {
  readonly store: ModelStore;
  readonly remote: RemoteReference;
  readonly name: LocalName;
  readonly plainHttp: boolean;
  /** Skips the layers that a front does not need. */
  readonly withoutWeights?: boolean;
  /** The complete model that the store already has under this name. */
  readonly stored?: PackagedModel | undefined;
}

/** Timeout for a silent registry when the stored model could be served instead. */
const STORED_SILENCE_MS = 10_000;

/** The full name with host, and the tag. */
export function localName({ host, repository, tag, digest }: RemoteReference): LocalName {
  return {
    repository: `${host}/${repository}`,
    tag: digest === undefined ? (tag ?? latestTag) : undefined,
  };
}

/** Pulls a model into the store and shows progress. */
export async function pullModel(options: PullModelOptions): Promise<PullResult> {
  const { store, remote, name, plainHttp, withoutWeights = false, stored } = options;
  const title = formatRemote(remote);
  const progress = new Progress({ verb: "Pulling" });
  const isPlain = plainHttp || isLoopback(remote.host);
  const silence = stored === undefined ? {} : { silenceMs: STORED_SILENCE_MS };
  const result = await abortable("interrupted; pull again to go on", (signal) =>
    pull({
      registry: new Registry({ remote, actions: "pull", isPlain, signal, ...silence }),
      store,
      repository: name.repository,
      tags: name.tag === undefined ? [] : [name.tag],
      withoutWeights,
      storedDigest: stored?.digest,
      onProgress: (step) => progress.update({ title, ...step }),
    }),
  ).finally(() => progress.end());
  const fetched = result.receivedBytes === 0 ? "all of it was here" : formatBytes(result.receivedBytes);
  log.info(`Pulled ${title}${withoutWeights ? " without weights" : ""}: ${fetched}`);
  return result;
}

/**
 * Updates a model from its registry. If the registry is unreachable, returns the stored copy.
 * @throws SconceError see `pull` and `ModelStore.resolve`
 */
export async function pulledModel(
  store: ModelStore,
  reference: string,
  { plainHttp = false, withoutWeights = false }: { readonly plainHttp?: boolean; readonly withoutWeights?: boolean },
): Promise<PackagedModel> {
  const remote = parseRemoteReference(reference);
  const name = localName(remote);
  const weights = !withoutWeights;
  const find = (repository: string) => {
    const local = remote.digest === undefined ? `${repository}:${name.tag}` : `${repository}@${remote.digest}`;
    return store.resolve(local, { weights }).catch((error: unknown) => {
      if (error instanceof SconceError) return undefined;
      throw error;
    });
  };
  const stored = (await find(name.repository)) ?? (await formerlyNamed(remote, find));
  // A digest identifies a model whatever its source.
  if (stored !== undefined && remote.digest !== undefined) return stored;
  try {
    const { digest } = await pullModel({ store, remote, name, plainHttp, withoutWeights, stored });
    return stored?.digest === digest ? stored : await store.resolve(`${name.repository}@${digest}`, { weights });
  } catch (error) {
    if (stored === undefined || !(error instanceof SconceError && error.code === "registry_unavailable")) throw error;
    log.warn(`Serving ${stored.reference} (${stored.digest}) as the store has it: ${messageOf(error)}`);
    return stored;
  }
}

/** Finds the model under the name of earlier sconce versions: only the last part of the repository. */
async function formerlyNamed(
  { host, repository }: RemoteReference,
  find: (repository: string) => Promise<PackagedModel | undefined>,
): Promise<PackagedModel | undefined> {
  const found = await find(repository.split("/").at(-1) ?? repository);
  return found?.copies.includes(`${host}/${repository}`) ? found : undefined;
}

/**
 * Lets Ctrl-C abort a copy in an orderly way.
 * @param what message of the `canceled` error, with which SIGINT or SIGTERM aborts the signal
 */
export async function abortable<T>(what: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  const abort = () => controller.abort(new SconceError("canceled", what));
  const signals = ["SIGINT", "SIGTERM"] as const;
  for (const signal of signals) process.once(signal, abort);
  try {
    return await work(controller.signal);
  } finally {
    for (const signal of signals) process.off(signal, abort);
  }
}
