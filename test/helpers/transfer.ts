/** Pushes and pulls models in the test's process, with short delays before retries. */

import type { Resolver } from "../../src/machine/network/name-resolver.ts";
import { type PullResult, pull } from "../../src/package/registry/pull.ts";
import { type PushResult, push } from "../../src/package/registry/push.ts";
import { Registry } from "../../src/package/registry/registry.ts";
import { parseRemoteReference } from "../../src/package/registry/remote-reference.ts";
import type { ReceiveProgress } from "../../src/package/store/receiving.ts";
import type { ModelStore, PutResult } from "../../src/package/store/store.ts";
import { modelConfig, modelLayers } from "./model-content.ts";

export interface TransferOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
  /** Milliseconds without a byte from the registry after which a transfer fails. */
  readonly silenceMs?: number;
  /** Whether to use HTTP without TLS; default true. */
  readonly isPlain?: boolean;
  readonly onProgress?: (progress: ReceiveProgress) => void;
  /** The host to which requests go in place of the reference's host. */
  readonly apiHost?: string;
  readonly resolver?: Resolver;
}

/** Pulls `HOST/repo:tag` into the store, as `digits:tag`. */
export function pullFrom(store: ModelStore, given: string, options: TransferOptions = {}): Promise<PullResult> {
  const remote = parseRemoteReference(given);
  return pull({
    registry: new Registry({ remote, actions: "pull", ...common(options) }),
    store,
    repository: "digits",
    tags: remote.tag === undefined ? [] : [remote.tag],
    ...(options.onProgress && { onProgress: options.onProgress }),
  });
}

/** Pushes a model of the store to `HOST/repo:tag`. @param given is `HOST/repo:tag` */
export async function pushTo(
  store: ModelStore,
  reference: string,
  given: string,
  options: TransferOptions = {},
): Promise<PushResult> {
  const remote = parseRemoteReference(given);
  const model = await store.resolve(reference);
  return push({
    registry: new Registry({ remote, actions: "pull,push", ...common(options) }),
    store,
    model,
    tag: remote.tag ?? "latest",
    ...(options.onProgress && { onProgress: options.onProgress }),
  });
}

/** Stores a model with `weightBytes` bytes of weights that do not compress. The same name gives the same bytes. */
export function putModel(store: ModelStore, name: string, weightBytes = 1000): Promise<PutResult> {
  const weights = new Uint8Array(weightBytes);
  let state = Bun.hash.crc32(name) | 1;
  for (let i = 0; i < weightBytes; i++) {
    state = Math.imul(state, 1664525) + 1013904223;
    weights[i] = state >>> 24;
  }
  const config = modelConfig({ description: name });
  return store.put({ repository: "digits", tags: ["v1"], config, layers: modelLayers(name, weights) });
}

function common({ onProgress: _, ...options }: TransferOptions) {
  const { env = {}, signal = new AbortController().signal, isPlain = true, silenceMs = 60_000 } = options;
  // A home folder that does not exist hides the machine's registry credentials.
  return { ...options, isPlain, env: { HOME: "/nonexistent", ...env }, signal, retryDelayMs: 1, silenceMs };
}
