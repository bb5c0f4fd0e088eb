/** The role `front`: a process that answers HTTP clients. It opens the port and the models, and drains when it stops. */
import { version } from "../../package.json";
import { addToEachLine, LogFields, log } from "../base/log.ts";
import { logLimit } from "../base/log-limit.ts";
import { until } from "../base/until.ts";
import { reload } from "../http/admin.ts";
import { type App, createApp } from "../http/app.ts";
import { withContext } from "../http/with-context.ts";
import type { Link } from "../machine/processes/link.ts";
import type { ModelSource } from "../package/model-source.ts";
import type { MemoryAccount } from "../pipeline/memory/memory-account.ts";
import type { FrontPort } from "./front-port.ts";
import { type FrontShared, openShared } from "./front-shared.ts";
import { type FromFront, frontStart, toFront } from "./messages.ts";
import { ServedModels } from "./served-models.ts";
import { surviveStrayErrors } from "./stray-errors.ts";

/**
 * Milliseconds that connections stay open after the last large answer, so that late requests and small answers can end.
 */
const LAST_ANSWERS_MS = 2000;

/** The code of a front. @param source finds the models */
export async function runFront(source: ModelSource, given: unknown, link: Link): Promise<void> {
  surviveStrayErrors();
  const start = frontStart.parse(given);
  addToEachLine(new LogFields({ front: start.index + 1 }));
  const { accessLog } = start.config;
  await using opened = new AsyncDisposableStack();
  const shared = await openShared(start, source, opened);
  const { lifecycle, port, otherFronts, metrics, tracing } = shared;
  const models = new ServedModels(shared, link);
  void models.apply(start.snapshot);
  link.onMessage((raw) => models.answer(toFront.parse(raw)));
  const app = appOf(shared, models, link);
  const counting = { metrics, tracing, accessLog };
  const answers = [
    withContext(app, { ...counting, connections: port }),
    withContext(app, { ...counting, isAdmin: true, connections: port.admin }),
  ] as const;
  if (!start.listensLate) port.open(...answers);
  lifecycle.outage = () => models.outage;
  opened.use(otherFronts.listen(withContext(app, { accessLog: false, isForwarded: true }), models.metrics));
  await models.open(opened, () => link.setUp());
  lifecycle.phase = "ready";
  port.open(...answers);
  models.ready();
  link.ready();
  await link.stopping;
  lifecycle.phase = "draining";
  const drained = await Promise.all(models.list.map((model) => model.drain()));
  link.send({ done: true } satisfies FromFront);
  await models.done.promise;
  await sendLastAnswers(port, shared.memory, Math.max(0, ...drained));
}

function appOf(shared: FrontShared, names: ServedModels, link: Link): App {
  const { start } = shared;
  const { config } = start;
  return createApp({
    ...shared,
    names,
    config,
    control: {
      reload: async () => reload.parse(await link.ask({ reload: true } satisfies FromFront)),
    },
    version,
    allMetrics: names.metrics,
    isQueued: config.queue !== undefined,
    onInternalError: (error, context) =>
      logLimit.write("internal", (...more) => log.error(error, ...more, context.fields())),
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
