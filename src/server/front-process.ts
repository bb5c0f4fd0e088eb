/**
 * The role `front`: a process that answers HTTP clients. Several share one port and one engine process for each model.
 */
import { z } from "zod";
import { messageOf, SconceError } from "../base/errors.ts";
import { log } from "../base/log.ts";
import { keyNumbers } from "../http/access/api-keys.ts";
import { reload } from "../http/server-control.ts";
import type { Role } from "../machine/processes/link.ts";
import { SharedCounters } from "../machine/processes/shared-counters.ts";
import type { ModelSource } from "../package/model-source.ts";
import { HookCell, hookCall } from "../pipeline/hook-cell.ts";
import type { Unfinished } from "../predictions/admission.ts";
import { frontOf, ownerOf } from "../predictions/ids.ts";
import { ModelVersion } from "../predictions/model-version.ts";
import { openStore } from "../predictions/open-store.ts";
import { EngineLink } from "./engine-link.ts";
import { type OpenFront, openFront } from "./front.ts";
import type { FrontModelOptions } from "./front-options.ts";
import {
  allDone,
  counterNames,
  type FromFront,
  type FrontModelStart,
  fromSupervisor,
  frontModelStart,
  type Opening,
  roleStart,
} from "./messages.ts";
import { slots } from "./metrics/counts.ts";
import { Metrics } from "./metrics/metrics.ts";
import type { ServedModels } from "./served-models.ts";
import { surviveStrayErrors } from "./stray-errors.ts";

const frontStart = roleStart.extend({
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
  models: z.array(frontModelStart),
  /** Name of the server in the stores of predictions. */
  server: z.string(),
  /** Whether no other server runs predictions of the stores. */
  hasClaim: z.boolean(),
  /** Path of the file of the `HookCell`; undefined in `sconce dev`, whose next process runs no predictions again. */
  hookCell: z.string().optional(),
  /** Calls of hooks that blocked fronts of this server. */
  guilty: z.array(hookCall).optional(),
  /** Whether one of these calls blocked the previous process with this index. */
  isCauseKnown: z.boolean().optional(),
});
export type FrontStart = z.infer<typeof frontStart>;

/**
 * Returns the code of an HTTP process.
 * @param sourceOf returns the model store and libraries that a command line names
 */
export function frontRole(sourceOf: (argv: readonly string[]) => ModelSource): Role {
  return async (start, link) => {
    surviveStrayErrors();
    const given = frontStart.parse(start);
    const { argv, models, config, port, adminPort, index, count, sockets, counters, counts, keys } = given;
    const { listensLate, wasReady, server, hasClaim, hookCell, guilty, isCauseKnown } = given;
    const source = sourceOf(argv);
    const links = new Map<number, EngineLink>();
    const closing = Promise.withResolvers<void>();
    const opened = Promise.withResolvers<OpenFront>();
    let isClaiming = hasClaim;
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
    const isStored = models.some(({ store }) => store !== undefined);
    const optionsOf = (model: FrontModelStart, wasReady?: boolean): FrontModelOptions => {
      const { name, tag, number, reference, home, config: own, counts: file, store, storeFault } = model;
      const { isPreloaded, socket } = model;
      const version = ModelVersion.of(reference);
      if (version === undefined) throw new RangeError(`${reference} is no build`);
      const engine = new EngineLink({
        isPreloaded,
        wasReady,
        ask: (move) => link.send({ model: number, move } satisfies FromFront),
      });
      links.set(number, engine);
      if (socket !== undefined) engine.ready(socket);
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
    const open = async (served: ServedModels, model: FrontModelStart): Promise<Opening> => {
      try {
        await served.openNext(optionsOf(model));
        return {};
      } catch (error) {
        return { failed: messageOf(error) };
      }
    };
    const switchTo = async (served: ServedModels, model: FrontModelStart) => {
      // This process has started since the build was opened in the others, with the list of before.
      if (!links.has(model.number)) await open(served, model);
      await served.switchToNext(model.name);
    };
    const [first, ...others] = models.map((model) => optionsOf(model, wasReady));
    if (first === undefined) throw new RangeError("a front has a model");
    // The engine links must exist: messages that have arrived are handled at once.
    link.onMessage((raw) => {
      const news = fromSupervisor.parse(raw);
      if ("done" in news) return closing.resolve();
      if ("claim" in news) {
        if (!isClaiming) void opened.promise.then((front) => front.claim()).catch((error) => log.error(error));
        isClaiming = true;
        return;
      }
      if ("open" in news) return opened.promise.then(({ models }) => open(models, news.open));
      if ("switchTo" in news) return opened.promise.then(({ models }) => switchTo(models, news.switchTo));
      if ("earlierOf" in news) return opened.promise.then(({ models }) => models.earlierEnded(news.earlierOf));
      if ("close" in news) return opened.promise.then(({ models }) => models.closeNext(news.close));
      const engine = links.get(news.model);
      if ("ask" in news) return news.ask === "idle" ? (engine?.idleMs ?? 0) : (engine?.release() ?? true);
      if ("socket" in news) engine?.ready(news.socket);
      else if ("isSilent" in news) engine?.silent(news.isSilent);
      else if ("failed" in news) engine?.failed(news.failed);
      else if ("state" in news) engine?.changed(news.state, news.isByClient);
      else engine?.ended(news.ended);
    });
    const front = await openFront({
      models: [first, ...others],
      metrics,
      config,
      listening: { port, adminPort, isShared: true },
      control: {
        drain: () => process.kill(process.ppid, "SIGTERM"),
        reload: async () => reload.parse(await link.ask({ reload: true } satisfies FromFront)),
      },
      wasReady,
      listensLate,
      hasClaim,
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
      isCauseKnown,
    });
    opened.resolve(front);
    link.ready();
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
