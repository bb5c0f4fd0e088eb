/** Where the other fronts of this server reach this one: a Unix socket in a folder that is private to the server. */
import { rmSync } from "node:fs";
import type { Metrics } from "../metrics/metrics.ts";
import type { Fetch } from "./listener.ts";
import { urlOf } from "./path.ts";
import { metricsPath, type SiblingsOptions } from "./siblings.ts";

export function listenForSiblings(
  { index, socketOf }: SiblingsOptions,
  fetch: Fetch,
  metrics: Metrics,
): AsyncDisposable {
  const path = socketOf(index);
  // Left by a process of this index that was killed.
  rmSync(path, { force: true });
  const listener = Bun.serve({
    unix: path,
    maxRequestBodySize: Number.MAX_SAFE_INTEGER,
    development: false,
    fetch: async (request, server) => {
      // A sibling may wait for as long as its client does.
      server.timeout(request, 0);
      return new URL(urlOf(request)).pathname === metricsPath ? Response.json(metrics.gauges()) : fetch(request);
    },
  });
  return { [Symbol.asyncDispose]: () => listener.stop(true) };
}
