/** Where in the author's own code an error comes from. */
import { SconceError } from "../errors.ts";

/** Of a stack's lines those of a model's bundle: its source map names files as seen from the model's folder, all others are absolute. */
const frame = /^ +at (?:.* \()?((?![\w-]+:|\/)[^():]+\.[cm]?[jt]sx?:\d+)(?::\d+)?\)?$/gm;

/** `model.ts:12`, of the innermost line that is the author's own and not a package's; undefined where none is known. */
export function authorLine(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  if (error instanceof SconceError && error.at !== undefined) return error.at;
  const lines = [...(error.stack ?? "").matchAll(frame)].map(([, line]) => line);
  return authorLine(error.cause) ?? lines.find((line) => !line?.startsWith("node_modules/")) ?? lines[0];
}

/** The message, with the line of the author's code where that is known: for those who run the model, not for clients. */
export function messageWithLine(error: Error): string {
  const line = authorLine(error);
  return line === undefined ? error.message : `${error.message} (${line})`;
}
