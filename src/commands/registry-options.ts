/** What the commands that speak with registries have in common. */

import { SconceError } from "../errors.ts";
import { flag, option } from "../option.ts";

export const registryOptions = {
  plainHttp: option({
    description: "Speak http, without TLS, with registries that are not on this machine, too",
    default: false,
    parse: flag,
  }),
} as const;

/** What help says of credentials. */
export const credentialsHelp =
  "Credentials are those of docker login (or podman, skopeo, oras): $REGISTRY_AUTH_FILE, or config.json in $DOCKER_CONFIG or ~/.docker, with its credential helpers. Registries on this machine are spoken to without TLS.";

/** Runs what SIGINT and SIGTERM abort in an orderly way. */
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
