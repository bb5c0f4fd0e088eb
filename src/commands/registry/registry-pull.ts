/** Models of registries for the commands: `pull` copies one into the store, `serve` serves it then. */
import { formatBytes } from "../../bytes.ts";
import { abortable } from "../../command-line/abortable.ts";
import { Progress } from "../../command-line/progress.ts";
import { messageOf, SconceError } from "../../errors.ts";
import { isLoopback } from "../../fetching/loopback.ts";
import { log } from "../../log.ts";
import { type PullResult, pull } from "../../registry/pull.ts";
import { Registry } from "../../registry/registry.ts";
import { formatRemote, parseRemoteReference, type RemoteReference } from "../../registry/remote-reference.ts";
import type { PackagedModel } from "../../store/packaged-model.ts";
import { latestTag } from "../../store/reference.ts";
import type { ModelStore } from "../../store/store.ts";

/** What a model of a registry is called in the store; one that was asked for by its digest has no tag but the generated one. */
export interface LocalName {
  readonly repository: string;
  readonly tag: string | undefined;
}

export interface PullModelOptions {
  readonly store: ModelStore;
  readonly remote: RemoteReference;
  readonly name: LocalName;
  readonly plainHttp: boolean;
  /** Leaves out what a front does not need. */
  readonly withoutWeights?: boolean;
  /** Of the complete model that the store has by that name. */
  readonly held?: PackagedModel | undefined;
}

/** How long a registry may send nothing to who could serve without it. */
const HELD_SILENCE_MS = 10_000;

/** The full name, with the host, and its tag. */
export function localName({ host, repository, tag, digest }: RemoteReference): LocalName {
  return {
    repository: `${host}/${repository}`,
    tag: digest === undefined ? (tag ?? latestTag) : undefined,
  };
}

/** Copies it into the store, and tells how far it is. */
export async function pullModel(options: PullModelOptions): Promise<PullResult> {
  const { store, remote, name, plainHttp, withoutWeights = false, held } = options;
  const title = formatRemote(remote);
  const progress = new Progress({ verb: "Pulling" });
  const isPlain = plainHttp || isLoopback(remote.host);
  const silence = held === undefined ? {} : { silenceMs: HELD_SILENCE_MS };
  const result = await abortable("interrupted; pull again to go on", (signal) =>
    pull({
      registry: new Registry({ remote, actions: "pull", isPlain, signal, ...silence }),
      store,
      repository: name.repository,
      tags: name.tag === undefined ? [] : [name.tag],
      withoutWeights,
      held: held?.digest,
      onProgress: (step) => progress.update({ title, ...step }),
    }),
  ).finally(() => progress.end());
  const fetched = result.receivedBytes === 0 ? "all of it was here" : formatBytes(result.receivedBytes);
  log.info(`Pulled ${title}${withoutWeights ? " without weights" : ""}: ${fetched}`);
  return result;
}

/**
 * The model of a registry, of which the store gets what it lacks; where the registry can't be reached, what the store has from there.
 *
 * @throws SconceError as `pull` and `ModelStore.resolve`
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
  const held = (await find(name.repository)) ?? (await formerlyNamed(remote, find));
  // A digest stands for the same model wherever it came from.
  if (held !== undefined && remote.digest !== undefined) return held;
  try {
    const { digest } = await pullModel({ store, remote, name, plainHttp, withoutWeights, held });
    return held?.digest === digest ? held : await store.resolve(`${name.repository}@${digest}`, { weights });
  } catch (error) {
    if (held === undefined || !(error instanceof SconceError && error.code === "registry_unavailable")) throw error;
    log.warn(`Serving ${held.reference} (${held.digest}) as the store has it: ${messageOf(error)}`);
    return held;
  }
}

/** The model as earlier versions of sconce named it: by the last part of its repository. */
async function formerlyNamed(
  { host, repository }: RemoteReference,
  find: (repository: string) => Promise<PackagedModel | undefined>,
): Promise<PackagedModel | undefined> {
  const found = await find(repository.split("/").at(-1) ?? repository);
  return found?.copies.includes(`${host}/${repository}`) ? found : undefined;
}
