/** Finds the line of the author's code that an error comes from. */
import { SconceError } from "./errors.ts";

/**
 * Matches stack frames inside a model's bundle. The bundle's source map has relative paths; all other frames have
 * absolute paths.
 */
const frame = /^ +at (?:.* \()?((?![\w-]+:|\/)[^():]+\.[cm]?[jt]sx?:\d+)(?::\d+)?\)?$/gm;

/**
 * `model.ts:12`: the innermost frame in the author's own files rather than in an npm package; undefined when unknown.
 */
export function authorLine(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  if (error instanceof SconceError && error.at !== undefined) return error.at;
  const lines = [...(error.stack ?? "").matchAll(frame)].map(([, line]) => line);
  return authorLine(error.cause) ?? lines.find((line) => !line?.startsWith("node_modules/")) ?? lines[0];
}

/** The message plus the line of the author's code, if known. For operators, not for clients. */
export function messageWithLine(error: Error): string {
  const line = authorLine(error);
  return line === undefined ? error.message : `${error.message} (${line})`;
}
