/** A front: a process that answers clients. It opens the port, sets the model up, accepts predictions, and drains. */
import { log } from "../base/log.ts";
import { appOf, gaugesOf, hindranceOf } from "./front-app.ts";
import { type FrontOptions, type FrontParts, openParts } from "./front-parts.ts";
import { FrontPort } from "./front-port.ts";
import { withContext } from "./http/request.ts";
import { Lifecycle } from "./http/routes/health.ts";
import { listenForSiblings, Siblings } from "./http/siblings.ts";
import type { MemoryAccount } from "./memory/memory-account.ts";
import type { PredictionService } from "./predictions/service.ts";

/** Time for late requests and for the ends of answers, once no large answer is being sent. Then connections are closed. */
const LAST_ANSWERS_MS = 2000;

export interface Front {
  /** URL of the server on this machine. */
  readonly url: URL;
  /** Refuses new predictions, finishes accepted predictions, and closes. May be called twice. */
  stop(): Promise<void>;
}

/**
 * Opens the port, then sets the model up; resolves when the front accepts predictions.
 * @throws SconceError `address_in_use`, `predictions_unusable`, or an error of the model's set-up
 */
export async function openFront(options: FrontOptions): Promise<Front> {
  const { accessLog } = options.config;
  const lifecycle = new Lifecycle();
  await using opened = new AsyncDisposableStack();
  const port = opened.use(new FrontPort(options, lifecycle));
  if (options.listensLate !== true) port.open();
  options.onListening?.();
  const parts = await openParts(options, opened);
  const { metrics } = parts;
  metrics.watch(() => gaugesOf(parts));
  lifecycle.hindrance = () => hindranceOf(parts);
  const siblings = options.siblings && new Siblings(options.siblings, port.hold);
  const app = await appOf(parts, { lifecycle, port, siblings });
  if (options.siblings !== undefined) {
    const fetch = withContext(app.fetch, { accessLog: false, isForwarded: true });
    opened.use(listenForSiblings(options.siblings, fetch, metrics));
  }
  options.onSetUp?.();
  await startPredictions(parts);
  const url = port.serve(withContext(app.fetch, { metrics, accessLog, peerOf: port.peerOf }));
  lifecycle.phase = "ready";
  const resources = opened.move();
  let stopped: Promise<void> | undefined;
  const stop = async () => {
    await leave(lifecycle, options.config.shutdownDelay);
    lifecycle.phase = "draining";
    const lingersUntilMs = await drain(parts);
    await options.othersDone?.();
    await sendLastAnswers(port, parts.memory, lingersUntilMs);
    await resources.disposeAsync();
  };
  return { url, stop: () => (stopped ??= stop()) };
}

/** Resumes predictions of an earlier process, and claims predictions of the queue. */
async function startPredictions({ options, service, running, replica }: FrontParts): Promise<void> {
  const resumed = (await service?.resume(options.isOwn ?? (() => true))) ?? 0;
  if (resumed > 0) log.info(`Resuming ${resumed} accepted predictions`);
  if (service !== undefined && running !== undefined) replica?.work(service, running.engine);
  await replica?.ready();
}

/** Reports "not ready" but keeps accepting predictions, until load balancers have noticed. */
async function leave(lifecycle: Lifecycle, delayS: number): Promise<void> {
  if (delayS <= 0) return;
  lifecycle.phase = "leaving";
  await Bun.sleep(1000 * delayS);
}

/**
 * Finishes accepted predictions. Then clients have the linger time to read their results, and receivers to take their webhooks.
 * @returns the end of the linger time
 */
async function drain({ options, running, replica, service, webhooks }: FrontParts): Promise<number> {
  const { drainTimeout, linger } = options.config;
  const lingerMs = 1000 * linger;
  running?.engine.hurry();
  if (replica !== undefined) await replica.drain(1000 * (drainTimeout ?? Infinity));
  else if (service !== undefined) await drainService(service, drainTimeout);
  const lingersUntilMs = performance.now() + lingerMs;
  if (replica !== undefined) await replica.releaseWebhooks(lingerMs);
  else await Promise.all([service?.live.unread.all(lingerMs), webhooks?.settled(lingerMs)]);
  return lingersUntilMs;
}

/** Ends all predictions, within the time limit. */
async function drainService(service: PredictionService, drainTimeout: number | undefined): Promise<void> {
  await Promise.race([service.live.drain(), ...(drainTimeout === undefined ? [] : [Bun.sleep(1000 * drainTimeout)])]);
  const { predictions } = service.live.unfinished;
  if (predictions > 0) log.warn(`${predictions} predictions have not ended within ${drainTimeout} s`);
  service.live.abandon();
}

/** Lets clients read large answers to the end of the linger time, and small answers for a moment longer. */
async function sendLastAnswers(port: FrontPort, memory: MemoryAccount, lingersUntilMs: number): Promise<void> {
  const closed = port.stop();
  await Promise.race([closed, answersSent(memory, lingersUntilMs - performance.now())]);
  await Promise.race([closed, Bun.sleep(LAST_ANSWERS_MS)]);
}

/** Resolves when no large answer is being sent, or after about `maxMs`. */
async function answersSent(memory: MemoryAccount, maxMs: number): Promise<void> {
  const timeout = Bun.sleep(Math.max(0, maxMs)).then(() => true);
  while (memory.parts.answers > 0) {
    const freed = new Promise<boolean>((resolve) => memory.onceRoom(() => resolve(false)));
    if (await Promise.race([timeout, freed])) return;
  }
}
