/**
 * The role `front`: a process that answers HTTP clients. Several share one port and one engine process for each model.
 */
import { z } from "zod";
import { SconceError } from "../base/errors.ts";
import { log } from "../base/log.ts";
import { keyNumbers } from "../http/access/api-keys.ts";
import { reload } from "../http/server-control.ts";
import type { Link } from "../machine/processes/link.ts";
import { SharedCounters } from "../machine/processes/shared-counters.ts";
import type { ModelSource } from "../package/model-source.ts";
import { HookCell, hookCall } from "../pipeline/hook-cell.ts";
import type { Unfinished } from "../predictions/admission.ts";
import { frontOf, ownerOf } from "../predictions/ids.ts";
import { ModelVersion } from "../predictions/model-version.ts";
import { openStore } from "../predictions/open-store.ts";
import type { EngineLink } from "./engine-link.ts";
import { type OpenFront, openFront } from "./front.ts";
import { FrontBuilds } from "./front-builds.ts";
import type { FrontModelOptions } from "./front-options.ts";
import {
  counterNames,
  type FromFront,
  type ModelRecord,
  type Snapshot,
  serverConfig,
  snapshot,
  toFront,
} from "./messages.ts";
import { slots } from "./metrics/counts.ts";
import { Metrics } from "./metrics/metrics.ts";
import { surviveStrayErrors } from "./stray-errors.ts";

const frontStart = z.object({
  config: serverConfig,
  port: z.int(),
  /** Admin port that all HTTP processes share; undefined without one. */
  adminPort: z.int().optional(),
  index: z.int(),
  /** Whether other HTTP processes already answer at the port, so that this one opens it only when it is ready. */
  listensLate: z.boolean(),
  wasReady: z.boolean().optional(),
  count: z.int(),
  /** Unix sockets of all HTTP processes, by index. */
  sockets: z.array(z.string()),
  /** File with the counters of unfinished work and memory, and the process ids, that all HTTP processes share. */
  counters: z.string(),
  /**
   * File with counters of the event loop and of requests that no model answers; with a single model, also with the
   * model's counters.
   */
  counts: z.string(),
  /** File with the counters of API keys that all HTTP processes share; undefined without keys. */
  keys: z.string().optional(),
  snapshot,
  /** Name of the server in the stores of predictions. */
  server: z.string(),
  /** Path of the file of the `HookCell`; undefined in `sconce dev`, whose next process runs no predictions again. */
  hookCell: z.string().optional(),
  /** Calls of hooks that blocked fronts of this server. */
  guilty: z.array(hookCall).optional(),
  /** Whether one of these calls blocked the previous process with this index. */
  isCauseKnown: z.boolean().optional(),
});
export type FrontStart = z.infer<typeof frontStart>;

/** The code of a front. @param source finds the models */
export async function runFront(source: ModelSource, start: unknown, link: Link): Promise<void> {
  surviveStrayErrors();
  const given = frontStart.parse(start);
  const { snapshot: first, config, port, adminPort, index, count, sockets, counters, counts, keys } = given;
  const { listensLate, wasReady, server, hookCell, guilty, isCauseKnown } = given;
  const closing = Promise.withResolvers<void>();
  const started = Promise.withResolvers<void>();
  const opened = Promise.withResolvers<OpenFront>();
  let { hasClaim } = first;
  const shared = new SharedCounters({ path: counters, names: counterNames, rows: count });
  const indices = Array.from({ length: count }, (_, i) => i);
  const keyCounts = keys === undefined ? undefined : new SharedCounters({ path: keys, names: keyNumbers, rows: count });
  const pids = indices.map((row) => shared.counter("pid", row));
  pids[index]?.set(process.pid);
  const metricsIn = (path: string) => {
    // The last row belongs to the parent process.
    const counted = new SharedCounters({ path, names: slots, rows: count + 1 });
    return new Metrics(
      [...indices, count].map((row) => counted.row(row)),
      index,
    );
  };
  const metrics = metricsIn(counts);
  const optionsOf = (record: ModelRecord, engine: EngineLink): FrontModelOptions => {
    const { name, tag, reference, home, options, counts: file, store, storeFault } = record;
    const own = { ...config, ...options };
    const version = ModelVersion.of(reference);
    if (version === undefined) throw new RangeError(`${reference} is no build`);
    return {
      name,
      tag,
      version,
      config: own,
      resolve: () => source.resolve(reference, { home, weights: config.role !== "front" }),
      metrics: file === counts ? metrics : metricsIn(file),
      engine: config.role === "front" ? undefined : engine,
      run: config.role === "front" ? undefined : (tools) => engine.open(tools),
      openStore: async (memory) => {
        if (storeFault !== undefined) throw new SconceError("predictions_unusable", storeFault);
        return openStore(store, own, "member", { memory, server });
      },
    };
  };
  const builds = new FrontBuilds({ link, optionsOf, served: opened.promise.then(({ models }) => models) });
  const current = first.models.filter(({ stage }) => stage === "current");
  const [model, ...others] = current.map((record) => builds.add(record).options);
  if (model === undefined) throw new RangeError("a front has a model");
  const follow = ({ models, isStarted, hasClaim: claims, isDone }: Snapshot): Promise<number[]> => {
    const applied = builds.apply(models);
    if (isStarted) started.resolve();
    if (isDone) closing.resolve();
    if (claims && !hasClaim) void opened.promise.then((front) => front.claim()).catch((error) => log.error(error));
    hasClaim = claims;
    return applied;
  };
  void follow(first);
  link.onMessage((raw) => {
    const question = toFront.parse(raw);
    if ("snapshot" in question) return follow(question.snapshot);
    if ("idle" in question) return builds.idleMs(question.idle);
    return "opened" in question ? builds.opened(question.opened) : builds.ended(question.ended);
  });
  const front = await openFront({
    models: [model, ...others],
    metrics,
    config,
    listening: { port, adminPort, isShared: true },
    control: {
      drain: () => process.kill(process.ppid, "SIGTERM"),
      reload: async () => reload.parse(await link.ask({ reload: true } satisfies FromFront)),
    },
    wasReady,
    listensLate,
    hasClaim: first.hasClaim,
    owner: ownerOf(index),
    countsStore: index === 0 || current.every(({ store }) => store === undefined),
    isOwn: (owner) => frontOf(owner, count) === index,
    started: async () => {
      link.setUp();
      if (first.isStarted) return;
      await started.promise;
      await builds.connected();
    },
    othersDone: () => {
      link.send({ done: true } satisfies FromFront);
      return closing.promise;
    },
    siblings: { index, count, socketOf: (other) => sockets[other] ?? "" },
    ...sharedCounts(shared, { row: index, count }),
    ...(keyCounts && { keyCounts: { rows: indices.map((row) => keyCounts.row(row)), own: index } }),
    // The process id is 0 while an HTTP process restarts.
    processes: () => ({
      supervisor: process.ppid,
      ...Object.fromEntries(pids.flatMap(({ own }, i) => (own === 0 ? [] : [[`front-${i + 1}`, own]]))),
    }),
    hookCell: hookCell === undefined ? undefined : new HookCell(hookCell),
    guilty,
    isCauseKnown,
  });
  opened.resolve(front);
  link.ready();
  await link.stopping;
  await front.stop();
}

/** Counters of unfinished work and of memory: this process's values, with the sums of the other HTTP processes. */
function sharedCounts(
  counters: SharedCounters<(typeof counterNames)[number]>,
  { row, count }: { row: number; count: number },
) {
  const items = counters.counter("items", row);
  const bytes = counters.counter("bytes", row);
  const unfinished: Unfinished = {
    get items() {
      return items.own;
    },
    set items(value) {
      items.set(value);
    },
    get bytes() {
      return bytes.own;
    },
    set bytes(value) {
      bytes.set(value);
    },
  };
  const memory = {
    count,
    held: counters.counter("held", row),
    pictures: counters.counter("pictures", row),
    results: counters.counter("results", row),
    refusals: counters.counter("refusals", row),
  };
  return { unfinished, memory, others: () => ({ items: items.sum() - items.own, bytes: bytes.sum() - bytes.own }) };
}
