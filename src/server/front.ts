/** An HTTP process (front): opens the port, sets up the models, accepts predictions, and drains when it stops. */
import { version } from "../../package.json";
import { log } from "../base/log.ts";
import { logLimit } from "../base/log-limit.ts";
import { until } from "../base/until.ts";
import { type App, createApp } from "../http/app.ts";
import { withContext } from "../http/with-context.ts";
import type { MemoryAccount } from "../pipeline/memory/memory-account.ts";
import type { FrontOptions } from "./front-options.ts";
import type { FrontPort } from "./front-port.ts";
import { type FrontShared, openShared } from "./front-shared.ts";
import { ServedModels } from "./served-models.ts";

/**
 * Milliseconds that connections stay open after the last large answer, so that late requests and small answers can end.
 */
const LAST_ANSWERS_MS = 2000;

/** A running server, or a process of it. */
export interface Front {
  /** URL of the server on this machine. */
  readonly url: URL;
  readonly adminUrl?: URL | undefined;
  /** Refuses new predictions, finishes accepted ones, and closes. May be called twice. */
  stop(): Promise<void>;
}

export interface OpenFront extends Front {
  readonly models: ServedModels;
  /** Runs the unfinished predictions of the server that had the port before, and has ended. */
  claim(): Promise<void>;
}

/**
 * Opens the port, then sets up the models; resolves when predictions are accepted.
 * @throws SconceError `address_in_use`, `predictions_unusable`, or an error of a model's set-up
 */
export async function openFront(options: FrontOptions): Promise<OpenFront> {
  const { accessLog } = options.config;
  await using opened = new AsyncDisposableStack();
  const shared = await openShared(options, opened);
  const { lifecycle, port, siblings, metrics, tracing } = shared;
  const models = new ServedModels(shared);
  const app = appOf(shared, models);
  const counting = { metrics, tracing, accessLog };
  const answers = [
    withContext(app, { ...counting, peerOf: port.peerOf }),
    withContext(app, { ...counting, isAdmin: true, peerOf: port.adminPeerOf }),
  ] as const;
  if (options.listensLate !== true) port.open(...answers);
  await models.open(opened);
  lifecycle.hindrance = () => models.hindrance;
  if (siblings !== undefined) {
    opened.use(siblings.listen(withContext(app, { accessLog: false, isForwarded: true }), models.metrics));
  }
  await options.started?.();
  const { hasClaim = true } = options;
  await Promise.all(models.opened.map((model) => model.start(hasClaim)));
  lifecycle.phase = "ready";
  const url = port.open(...answers);
  const resources = opened.move();
  let stopped: Promise<void> | undefined;
  const stop = async () => {
    lifecycle.phase = "draining";
    const drained = await Promise.all(models.opened.map((model) => model.drain()));
    const lingersUntilMs = Math.max(0, ...drained);
    await options.othersDone?.();
    await sendLastAnswers(port, shared.memory, lingersUntilMs);
    await resources.disposeAsync();
  };
  return {
    url,
    adminUrl: port.adminUrl,
    stop: () => (stopped ??= stop()),
    models,
    claim: async () => void (await Promise.all(models.opened.map((model) => model.claim()))),
  };
}

function appOf(shared: FrontShared, names: ServedModels): App {
  const { options, port } = shared;
  const { config, control } = options;
  return createApp({
    ...shared,
    names,
    config,
    control,
    version,
    allMetrics: names.metrics,
    isQueued: config.queue !== undefined,
    onInternalError: (error, context) =>
      logLimit.write("internal", (...more) => log.error(error, ...more, context.fields())),
    onHold: port.hold,
    peerOf: port.peerOf,
  });
}

/**
 * Closes the port. Waits until clients have read large answers, at most until `lingersUntilMs`, and a moment longer for
 * small answers.
 */
async function sendLastAnswers(port: FrontPort, memory: MemoryAccount, lingersUntilMs: number): Promise<void> {
  let isClosed = false;
  const closed = port.stop().then(() => {
    isClosed = true;
  });
  await until(() => isClosed || memory.parts.answers === 0, lingersUntilMs - performance.now());
  await Promise.race([closed, Bun.sleep(LAST_ANSWERS_MS)]);
}
