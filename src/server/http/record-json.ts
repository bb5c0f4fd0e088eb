/** Records as clients read them. */
import { LargeText, type Text } from "../predictions/large-text.ts";
import { type EndedRecord, type PredictionRecord, statusOf } from "../predictions/record.ts";
import type { Family } from "./families.ts";

/** JSON text; the outcome was formatted when the prediction ended. */
export function recordJson(record: PredictionRecord, family: Family): string {
  const { head, members, tail } = textsOf(record, family);
  return `${head}${members}${tail}`;
}

/** The same, of an outcome that may be megabytes. */
export function largeRecord(record: EndedRecord, family: Family): LargeText {
  const { head, members, tail } = textsOf(record, family);
  return new LargeText([head, members, tail]);
}

function textsOf(
  record: PredictionRecord,
  { idName, kind }: Family,
): Record<"head" | "tail", string> & { members: Text } {
  const { id, outcome, createdAtMs, startedAtMs, finishedAtMs } = record;
  const head = `{"${idName}":"${id}","status":"${statusOf(record)}"${outcome === undefined ? "" : ","}`;
  let tail = "";
  if (kind === "demo") tail += `,"logs":${JSON.stringify(record.logs)}`;
  tail += `,"created_at":"${createdAt(createdAtMs)}"`;
  if (startedAtMs !== undefined) tail += `,"started_at":"${startedAt(startedAtMs)}"`;
  if (finishedAtMs !== undefined) tail += `,"finished_at":"${finishedAt(finishedAtMs)}"`;
  return { head, members: outcome?.members ?? "", tail: `${tail}}` };
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
