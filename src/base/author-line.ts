/** Finds the lines of the author's code that an error comes from. */

/**
 * Matches a stack frame inside a model's bundle. Only the bundle's source map has relative paths, so every absolute
 * path belongs to other code.
 */
const frame = /^ +at (?:.* \()?((?![\w-]+:|\/)[^():]+\.[cm]?[jt]sx?:\d+)(?::\d+)?\)?$/gm;

const MAX_FRAMES = 10;

/**
 * The innermost frame in the author's own files, such as `model.ts:12`; without one, the innermost frame in the
 * author's npm packages; undefined when unknown.
 */
export function authorLine(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const lines = [...(error.stack ?? "").matchAll(frame)].map(([, line]) => line);
  return authorLine(error.cause) ?? lines.find((line) => !line?.startsWith("node_modules/")) ?? lines[0];
}

/** The innermost stack frames in the author's code and its npm packages, one per line; empty when unknown. */
export function authorStack(error: unknown): string {
  if (!(error instanceof Error)) return "";
  const frames = [...(error.stack ?? "").matchAll(frame)].slice(0, MAX_FRAMES).map(([text]) => text);
  return authorStack(error.cause) || frames.join("\n");
}

/** The error's message, with the line of the author's code if known. For operators, not for clients. */
export function messageWithLine(error: Error): string {
  const line = authorLine(error);
  return line === undefined ? error.message : `${error.message} (${line})`;
}
