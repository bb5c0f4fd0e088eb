/** Makes records of what a database has of them. */

import { LargeText } from "../large-text.ts";
import type { Kind, PredictionRecord } from "../record.ts";
import type { KeptFiles } from "./kept-files.ts";
import type { StoredRecord } from "./sqlite-messages.ts";

/** Undefined when retention has removed its file meanwhile. */
export async function recordOf(stored: StoredRecord, files: KeptFiles): Promise<PredictionRecord | undefined> {
  const { id, count, itemsDone, createdAtMs, startedAtMs, finishedAtMs, status, file, fileMembersBytes, digest } =
    stored;
  const content = file === null ? undefined : await files.read(file);
  if (file !== null && content === undefined) return undefined;
  const members = content === undefined ? stored.members : new LargeText([content.subarray(0, fileMembersBytes)]);
  return {
    id,
    kind: kindOf(stored.kind),
    count,
    itemsDone,
    createdAtMs,
    startedAtMs: startedAtMs ?? undefined,
    finishedAtMs: finishedAtMs ?? undefined,
    outcome: status === null ? undefined : { status: status === "success" ? "success" : "failed", members },
    logs: content === undefined ? stored.logs : textOf(content.subarray(fileMembersBytes)),
    digest: digest || undefined,
  };
}

export function kindOf(kind: string): Kind {
  return kind === "demo" ? "demo" : "prediction";
}

function textOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString();
}
