/** Opens the predictions of a model in a front. */

import type { OpenedModel } from "../author/define.ts";
import { authorStack, messageWithLine } from "../base/author-line.ts";
import { type ErrorCode, oneLine, type SconceError } from "../base/errors.ts";
import { type LogFields, log } from "../base/log.ts";
import { logLimit } from "../base/log-limit.ts";
import { fieldsOf } from "../http/request.ts";
import type { Logged } from "../predictions/live-predictions.ts";
import { Predictions, type PredictionsOptions } from "../predictions/predictions.ts";
import type { ServeConfig } from "./config.ts";
import { MAX_QUEUED_VALUE_BYTES } from "./serve-limits.ts";

export interface FrontPredictionsOptions extends Omit<PredictionsOptions, "limits" | "onFault" | "onLog"> {
  readonly config: ServeConfig;
}

/** Most inputs of a demo prediction (POST /demo), which the model's page creates: more inputs only slow the page. */
const MAX_DEMO_INPUTS = 64;

export function openPredictions({ config, ...options }: FrontPredictionsOptions): Predictions {
  return new Predictions({
    ...options,
    onFault: logFault,
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
}

export function maxInputsOf(
  model: Pick<OpenedModel, "settings">,
  config: ServeConfig,
): { prediction: number; demo: number } {
  const prediction = Math.min(model.settings.maxInputs ?? config.maxInputs, config.maxQueuedItems);
  return { prediction, demo: Math.min(MAX_DEMO_INPUTS, prediction) };
}

/** Codes of faults that clients cause. Their log lines have the level debug; all other failures are warnings. */
const clientFaults: ReadonlySet<ErrorCode> = new Set([
  "file_refused",
  "file_unavailable",
  "file_too_large",
  "file_invalid",
  "input_refused",
  "canceled",
]);

function fieldsAbout({ id, origin, model }: Logged): LogFields {
  return fieldsOf(origin, { prediction_id: id, model: model?.name });
}

/**
 * Text of the stack below a log line, for an error of the model's code. Empty for a single stack frame, because the log
 * line names that frame.
 */
function stackOf(error: SconceError): readonly string[] {
  const stack = authorStack(error);
  return stack.includes("\n") ? [`\n${stack}`] : [];
}

function logFault(where: string, error: SconceError, about: Logged): void {
  const fields = fieldsAbout(about);
  if (!clientFaults.has(error.code)) {
    logLimit.write(error.code, (...more) =>
      log.warn(`${where}: ${oneLine(messageWithLine(error), 1000)}`, ...more, fields, ...stackOf(error)),
    );
  }
  log.debug(`${where}:`, error.cause ?? error, fields);
}
