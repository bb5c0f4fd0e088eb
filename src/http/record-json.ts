/** Records as clients read them. */
import { type PredictionRecord, statusOf } from "../predictions/record.ts";
import type { Family } from "./families.ts";

/** JSON text; the outcome was formatted when the prediction ended. */
export function recordJson(record: PredictionRecord, { idName, kind }: Family): string {
  const { id, outcome, createdAtMs, startedAtMs, finishedAtMs } = record;
  let body = `{"${idName}":"${id}","status":"${statusOf(record)}"`;
  if (outcome !== undefined) body += `,${outcome.members}`;
  if (kind === "demo") body += `,"logs":${JSON.stringify(record.logs)}`;
  body += `,"created_at":"${createdAt(createdAtMs)}"`;
  if (startedAtMs !== undefined) body += `,"started_at":"${startedAt(startedAtMs)}"`;
  if (finishedAtMs !== undefined) body += `,"finished_at":"${finishedAt(finishedAtMs)}"`;
  return `${body}}`;
}

/** Formats times; the last one is kept, as the predictions of one batch began and ended in the same millisecond. */
function isoFormat(): (ms: number) => string {
  let [last, text] = [Number.NaN, ""];
  return (ms) => {
    if (ms !== last) [last, text] = [ms, new Date(ms).toISOString()];
    return text;
  };
}

const [createdAt, startedAt, finishedAt] = [isoFormat(), isoFormat(), isoFormat()];
