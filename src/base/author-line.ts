/** Finds the lines of the author's code that an error comes from. */

/**
 * Matches stack frames inside a model's bundle. The bundle's source map has relative paths; all other frames have
 * absolute paths.
 */
const frame = /^ +at (?:.* \()?((?![\w-]+:|\/)[^():]+\.[cm]?[jt]sx?:\d+)(?::\d+)?\)?$/gm;

const MAX_FRAMES = 10;

/**
 * `model.ts:12`: the innermost frame in the author's own files rather than in an npm package; undefined when unknown.
 */
export function authorLine(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const lines = [...(error.stack ?? "").matchAll(frame)].map(([, line]) => line);
  return authorLine(error.cause) ?? lines.find((line) => !line?.startsWith("node_modules/")) ?? lines[0];
}

/** The innermost frames of the stack in the author's code and its packages, a line each; empty when unknown. */
export function authorStack(error: unknown): string {
  if (!(error instanceof Error)) return "";
  const frames = [...(error.stack ?? "").matchAll(frame)].slice(0, MAX_FRAMES).map(([text]) => text);
  return authorStack(error.cause) || frames.join("\n");
}

/** The message plus the line of the author's code, if known. For operators, not for clients. */
export function messageWithLine(error: Error): string {
  const line = authorLine(error);
  return line === undefined ? error.message : `${error.message} (${line})`;
}
