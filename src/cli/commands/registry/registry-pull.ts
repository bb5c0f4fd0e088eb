/** Pulls models from registries, for the commands `pull` and `serve`. */
import { formatBytes } from "../../../base/bytes.ts";
import { messageOf, SconceError } from "../../../base/errors.ts";
import { log } from "../../../base/log.ts";
import { Progress } from "../../../base/progress.ts";
import { isLoopback } from "../../../machine/network/host-name.ts";
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

/** Name of a pulled model in the store. `tag` is undefined for a pull by digest, which sets only the generated tag. */
export interface LocalName {
  readonly repository: string;
  readonly tag: string | undefined;
}

export interface PullModelOptions {
  readonly store: ModelStore;
  readonly remote: RemoteReference;
  readonly name: LocalName;
  /** Whether registries on other machines may have no TLS. */
  readonly plainHttp?: boolean;
  /** Skips files that a server with `--role front` does not need, such as weights. */
  readonly withoutWeights?: boolean;
  /** The complete model that the store has under this name; undefined without one. */
  readonly stored?: PackagedModel | undefined;
}

/** Milliseconds without an answer of the registry after which the copy in the store is used. */
const STORED_SILENCE_MS = 10_000;

/** The name for a pulled model: host, repository and tag. */
export function localName({ host, repository, tag, digest }: RemoteReference): LocalName {
  return {
    repository: `${host}/${repository}`,
    tag: digest === undefined ? (tag ?? latestTag) : undefined,
  };
}

export async function pullModel(options: PullModelOptions): Promise<PullResult> {
  const { store, remote, name, plainHttp = false, withoutWeights = false, stored } = options;
  const title = formatRemote(remote);
  const progress = new Progress({ verb: "Pulling" });
  const isPlain = plainHttp || isLoopback(remote.host);
  const silence = stored === undefined ? {} : { silenceMs: STORED_SILENCE_MS };
  const result = await abortable("interrupted", (signal) =>
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
  const fetched = result.receivedBytes === 0 ? "the store had all files" : formatBytes(result.receivedBytes);
  log.info(`Pulled ${title}${withoutWeights ? " without weights" : ""}: ${fetched}`);
  return result;
}

/**
 * Pulls a model and returns it. If the registry is unreachable, returns the copy in the store.
 * @throws SconceError as `pull` and `ModelStore.resolve`
 */
export async function pulledModel(
  store: ModelStore,
  reference: string,
  { withoutWeights = false }: { readonly withoutWeights?: boolean } = {},
): Promise<PackagedModel> {
  const remote = parseRemoteReference(reference);
  const name = localName(remote);
  const weights = !withoutWeights;
  const local = remote.digest === undefined ? `${name.repository}:${name.tag}` : `${name.repository}@${remote.digest}`;
  const stored = await store.resolve(local, { weights }).catch((error: unknown) => {
    if (error instanceof SconceError) return undefined;
    throw error;
  });
  // A digest always means the same model, so the registry is not needed.
  if (stored !== undefined && remote.digest !== undefined) return stored;
  try {
    const { digest } = await pullModel({ store, remote, name, withoutWeights, stored });
    return stored?.digest === digest ? stored : await store.resolve(`${name.repository}@${digest}`, { weights });
  } catch (error) {
    if (stored === undefined || !(error instanceof SconceError && error.code === "registry_unavailable")) throw error;
    log.warn(`Serving the store's copy ${stored.reference} (${stored.digest}): ${messageOf(error)}`);
    return stored;
  }
}

/**
 * Runs work with a signal that aborts at SIGINT or SIGTERM, with the error `canceled`.
 * @param what message of this error
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
