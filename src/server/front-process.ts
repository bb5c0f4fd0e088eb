/**
 * The role `front`: a process that answers HTTP clients. Several share one port and one engine process for each model.
 */
import { z } from "zod";
import { surviveStrayErrors } from "../author/stray-errors.ts";
import { SconceError } from "../base/errors.ts";
import { log } from "../base/log.ts";
import type { Role } from "../machine/processes/link.ts";
import { shortenSlices } from "../machine/processes/scheduling.ts";
import { SharedCounters } from "../machine/processes/shared-counters.ts";
import type { ModelSource } from "../package/model-source.ts";
import { keyNumbers } from "./access/api-keys.ts";
import { EngineLink } from "./engine-link.ts";
import { HookCell, hookCall } from "./flow/hook-cell.ts";
import { type OpenFront, openFront } from "./front.ts";
import type { FrontModelOptions } from "./front-model-parts.ts";
import {
  allDone,
  counterNames,
  type FromFront,
  fromSupervisor,
  modelStart,
  relativesNews,
  roleStart,
} from "./messages.ts";
import { slots } from "./metrics/counts.ts";
import { Metrics } from "./metrics/metrics.ts";
import type { Unfinished } from "./predictions/admission.ts";
import { frontOf, ownerOf } from "./predictions/ids.ts";
import { openStore } from "./predictions/open-store.ts";
import { reload } from "./server-control.ts";

const frontStart = roleStart.extend({
  port: z.int(),
  /** Admin port that all HTTP processes share; undefined without one. */
  adminPort: z.int().optional(),
  /** Number of sockets with which this process listens on each port (default 1). */
  portSockets: z.int().optional(),
  /** Unix socket on which this process listens instead of the port. */
  unix: z.string().optional(),
  index: z.int(),
  /** Whether this process starts again while other HTTP processes answer at the port. */
  isRestart: z.boolean(),
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
  models: z.array(
    modelStart.extend({
      counts: z.string(),
      /** Path of the database of predictions; undefined to keep predictions in memory. */
      store: z.string().optional(),
      storeFault: z.string().optional(),
      /** Whether the server loads the model at its start (default true). */
      isPreloaded: z.boolean().optional(),
    }),
  ),
  server: z.string(),
  /** Whether this process waits for a message of its parent process before it opens the port. */
  waitsToListen: z.boolean(),
  /** Whether a newer server has taken over the port. */
  isRetiring: z.boolean().optional(),
  /**
   * Reference of an earlier build. The process then only finishes the predictions of this build, and ends after the
   * last one.
   */
  onlyBuild: z.string().optional(),
  relatives: relativesNews,
  /** Path of the file of the `HookCell`; undefined in `sconce dev`, whose next process runs no predictions again. */
  hookCell: z.string().optional(),
  /** Calls of hooks that blocked fronts of this server. */
  guilty: z.array(hookCall).optional(),
  /** Set if the previous process with this index was blocked: by one of these calls, or by an unknown call. */
  blocked: z.enum(["by guilty", "by unknown"]).optional(),
});
export type FrontStart = z.infer<typeof frontStart>;

/**
 * Returns the code of an HTTP process.
 * @param sourceOf returns the model store and libraries that a command line names
 */
export function frontRole(sourceOf: (argv: readonly string[]) => ModelSource): Role {
  return async (start, link) => {
    surviveStrayErrors();
    const {
      argv,
      models,
      config,
      port,
      adminPort,
      portSockets,
      unix,
      index,
      isRestart,
      wasReady,
      count,
      sockets,
      counters,
      counts,
      keys,
      hookCell,
      guilty,
      blocked,
      ...given
    } = frontStart.parse(start);
    const { onlyBuild, relatives, server, waitsToListen, isRetiring = false } = given;
    // Requests for one model then wait less for a core while another model is busy.
    if (models.length > 1) shortenSlices();
    const linked = models.map((model, i) => ({
      ...model,
      engine: new EngineLink(model.isPreloaded, (move) => link.send({ model: i, move } satisfies FromFront)),
    }));
    const closing = Promise.withResolvers<void>();
    const opened = Promise.withResolvers<OpenFront>();
    const mayListen = Promise.withResolvers<void>();
    const tell = (message: FromFront) => link.send(message);
    let changing: Promise<unknown> = Promise.resolve();
    link.onMessage((raw) => {
      const news = fromSupervisor.parse(raw);
      if ("done" in news) {
        closing.resolve();
        return;
      }
      if ("relatives" in news) {
        // Lists of other servers are handled in order, because each list is compared with the previous one.
        changing = Promise.all([opened.promise, changing])
          .then(([front]) => front.changeRelatives(news))
          .catch((error) => log.error(error));
        return;
      }
      if ("listen" in news) {
        mayListen.resolve();
        return;
      }
      if ("retire" in news) {
        void opened.promise.then((front) => front.retire(news.retire));
        return;
      }
      if ("steer" in news) return opened.promise.then(({ port }) => port.steer(news.steer));
      if ("closePort" in news) return opened.promise.then(({ port }) => port.closeWhenQuiet());
      const engine = linked[news.model]?.engine;
      if ("ask" in news) return news.ask === "idle" ? (engine?.idleMs ?? 0) : (engine?.release() ?? true);
      if ("socket" in news) engine?.ready(news.socket);
      else if ("isSilent" in news) engine?.silent(news.isSilent);
      else if ("failed" in news) engine?.failed(news.failed);
      else if ("state" in news) engine?.changed(news.state, news.isByClient);
      else engine?.ended(news.ended);
    });
    const shared = new SharedCounters({ path: counters, names: counterNames, rows: count });
    const indices = Array.from({ length: count }, (_, i) => i);
    const keyCounts =
      keys === undefined ? undefined : new SharedCounters({ path: keys, names: keyNumbers, rows: count });
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
    const source = sourceOf(argv);
    const isStored = models.some(({ store }) => store !== undefined);
    const served = await Promise.all(
      linked.map(
        async ({
          reference,
          home,
          config: own,
          counts: file,
          store,
          storeFault,
          engine,
          ...model
        }): Promise<FrontModelOptions> => {
          const packaged = await source.resolve(reference, { home, weights: config.role !== "front" });
          return {
            ...model,
            packaged,
            config: own,
            metrics: file === counts ? metrics : metricsIn(file),
            engine: config.role === "front" ? undefined : engine,
            run: config.role === "front" ? undefined : (tools) => engine.open(packaged, tools),
            openStore: async (memory) => {
              if (storeFault !== undefined) throw new SconceError("predictions_unusable", storeFault);
              return openStore(store, own, "member", { memory, server });
            },
          };
        },
      ),
    );
    const [first, ...others] = served;
    if (first === undefined) throw new RangeError("a front has a model");
    const front = await openFront({
      models: [first, ...others],
      metrics,
      config,
      listening: { port, adminPort, portSockets, isShared: true, unix, isTakenOver: isRetiring },
      control: {
        drain: () => process.kill(process.ppid, "SIGTERM"),
        reload: async (reloadMs) => reload.parse(await link.ask({ reloadMs } satisfies FromFront)),
      },
      wasReady,
      listensLate: isRestart || waitsToListen,
      ...(waitsToListen && {
        mayListen: () => {
          tell({ prepared: true });
          return mayListen.promise;
        },
      }),
      onlyBuild,
      relatives,
      owner: ownerOf(index),
      countsStore: !isStored || index === 0,
      isOwn: (owner) => frontOf(owner, count) === index,
      onSetUp: () => link.setUp(),
      othersDone: () => {
        link.send(allDone);
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
      blocked,
    });
    if (isRetiring) front.retire(true);
    opened.resolve(front);
    link.ready();
    if (onlyBuild !== undefined) void front.ended().then(() => link.send(allDone));
    await link.stopping;
    await front.stop();
  };
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
