/** The parts of a model in a front that all its builds use: the store of its predictions, webhooks, and the predictions. */
import { authorStack, messageWithLine } from "../base/author-line.ts";
import { type ErrorCode, oneLine, SconceError } from "../base/errors.ts";
import { log } from "../base/log.ts";
import { logLimit } from "../base/log-limit.ts";
import { familyOf, recordJson } from "../http/record-json.ts";
import { fieldsOf } from "../http/request.ts";
import { ownerOf } from "../predictions/ids.ts";
import type { Logged } from "../predictions/live-predictions.ts";
import { MemoryStore } from "../predictions/memory-store.ts";
import { Predictions } from "../predictions/predictions.ts";
import type { PredictionRecord } from "../predictions/record.ts";
import { SqliteStore } from "../predictions/sqlite/sqlite-store.ts";
import type { Store } from "../predictions/store.ts";
import { Webhooks } from "../predictions/webhooks/webhooks.ts";
import type { FrontShared } from "./front-shared.ts";
import { labelOf } from "./messages.ts";
import type { Metrics } from "./metrics/metrics.ts";
import { MAX_QUEUED_VALUE_BYTES } from "./serve-limits.ts";
import type { OpenBuild, ServedBuild } from "./served-build.ts";

export interface ModelParts {
  readonly store: Store;
  readonly webhooks: Webhooks | undefined;
  readonly predictions: Predictions;
}

/** A model that could be opened. */
export interface OpenModel {
  readonly parts: ModelParts;
  /** The build that answers. */
  build: OpenBuild;
}

interface PartsOptions {
  readonly shared: FrontShared;
  readonly metrics: Metrics;
  /** The build that answers. Another one may replace it. */
  readonly current: () => ServedBuild;
  readonly runs: OpenBuild["runs"];
}

/** @param opened gets the parts, and closes them when it is disposed @throws SconceError `predictions_unusable` */
export async function openModelParts(
  { shared, metrics, current, runs: build }: PartsOptions,
  opened: AsyncDisposableStack,
): Promise<ModelParts> {
  const { config, record } = current();
  const { memory, tracing, unfinished, others, hasOthers } = shared;
  const { count: fronts, index, isCauseKnown } = shared.start;
  const store = opened.adopt(await storeOf(shared, current(), metrics), (it) => it.close());
  const json = (record: PredictionRecord) => recordJson(record, familyOf(record.kind));
  // Receivers cannot trust unsigned messages.
  const webhooks =
    config.webhookSecret.length === 0 ? undefined : new Webhooks({ config, store, metrics, memory, json });
  opened.defer(() => webhooks?.stop());
  const fieldsAbout = ({ id, origin, model }: Logged) =>
    fieldsOf(origin, { prediction_id: id, model: model && labelOf({ ...record, reference: model.reference }) });
  const predictions = new Predictions({
    build,
    unfinished,
    others,
    hasOthers,
    store,
    metrics,
    memory,
    owner: ownerOf(index),
    unavailable: () => current().refuse(),
    fronts,
    load: () => current().need(),
    webhooks,
    isCauseKnown,
    tracing,
    onFault: (where, error, about) => logFault(where, error, fieldsAbout(about)),
    onLog: (where, text, about) => log.info(`${where}: ${text}`, fieldsAbout(about)),
    limits: {
      maxQueuedItems: config.maxQueuedItems,
      maxQueuedBytes: config.maxQueuedBytes,
      timeoutMs: config.timeout * 1000,
      maxLogBytes: config.maxLogBytes,
      maxResultBytes:
        config.queue === undefined ? config.maxResultBytes : Math.min(MAX_QUEUED_VALUE_BYTES, config.maxResultBytes),
    },
  });
  return { store, webhooks, predictions };
}

async function storeOf(
  { memory, start: { server } }: FrontShared,
  { config, record, version }: ServedBuild,
  metrics: Metrics,
): Promise<Store> {
  const { queue: url, queueName: name = version.reference } = config;
  if (record.storeFault !== undefined) throw new SconceError("predictions_unusable", record.storeFault);
  if (url === undefined) {
    const { store: path } = record;
    const retention = { maxAgeMs: config.retainAge * 1000, maxBytes: config.retainBytes };
    if (path === undefined) return new MemoryStore(retention, { memory });
    return SqliteStore.open({ path, retention, sync: config.storeSync, memory, server });
  }
  // Loading the Redis client takes a tenth of a server's start, so only servers with --queue load it.
  const { RedisStore } = await import("../predictions/redis/redis-store.ts");
  return new RedisStore({ config, url, name, repository: version.repository, memory, metrics });
}

/** Codes of faults that clients cause. The log has these faults at the level debug, and all other faults as warnings. */
const clientFaults: ReadonlySet<ErrorCode> = new Set([
  "file_refused",
  "file_unavailable",
  "file_too_large",
  "file_invalid",
  "input_refused",
  "canceled",
]);

function logFault(where: string, error: SconceError, fields: ReturnType<typeof fieldsOf>): void {
  if (!clientFaults.has(error.code)) {
    logLimit.write(error.code, (...more) =>
      log.warn(`${where}: ${oneLine(messageWithLine(error), 1000)}`, ...more, fields, ...stackOf(error)),
    );
  }
  log.debug(`${where}:`, error.cause ?? error, fields);
}

/**
 * Text of the stack below a log line, for an error of the model's code. Empty for a single stack frame, because the log
 * line names that frame.
 */
function stackOf(error: SconceError): readonly string[] {
  const stack = authorStack(error);
  return stack.includes("\n") ? [`\n${stack}`] : [];
}
