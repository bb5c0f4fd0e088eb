/** Creates the files that all fronts of a server share: counters, and the paths of their sockets. */

import { keyNumbers } from "../http/access/api-keys.ts";
import type { RunFolder } from "../machine/processes/run-folder.ts";
import { SharedCounters } from "../machine/processes/shared-counters.ts";
import type { ServeConfig } from "./config.ts";
import { counterNames } from "./messages.ts";
import { slots } from "./metrics/counts.ts";

export function shareFiles({
  config,
  folder,
  count,
  port,
  models,
}: {
  readonly config: ServeConfig;
  readonly folder: RunFolder;
  readonly count: number;
  readonly port: number;
  readonly models: number;
}) {
  const counters = folder.join("counters");
  // Counters of metrics are never cleared, so that they include the counts of killed processes.
  const counts = Array.from({ length: models }, (_, model) => folder.join(`counts-${model}`));
  // The last row belongs to the supervisor.
  const create = (path: string) => SharedCounters.create({ path, names: slots, rows: count + 1 }).row(count);
  const supervisorCounts = counts.map(create);
  const serverCounts = models > 1 ? folder.join("counts") : (counts[0] ?? "");
  if (models > 1) create(serverCounts);
  const keys = config.apiKeys === undefined ? undefined : folder.join("keys");
  return {
    counters: SharedCounters.create({ path: counters, names: counterNames, rows: count }),
    keyCounts: keys === undefined ? undefined : SharedCounters.create({ path: keys, names: keyNumbers, rows: count }),
    start: {
      config,
      port,
      count,
      sockets: Array.from({ length: count }, (_, index) => folder.join(`front-${index}.sock`)),
      counters,
      counts: serverCounts,
      keys,
    },
    counts,
    /** Rows of the supervisor in the counter files, by model. */
    supervisorCounts,
  };
}
