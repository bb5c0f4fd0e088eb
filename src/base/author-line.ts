/** Finds the stack frames of an error that are in the code of a model's author. */

/** Matches a stack frame in a model's bundle. Only such frames have relative paths, which its source map gives. */
const frame = /^ +at (?:.* \()?((?![\w-]+:|\/)[^():]+\.[cm]?[jt]sx?:\d+)(?::\d+)?\)?$/gm;

const MAX_FRAMES = 10;

/**
 * File and line of the innermost frame in the author's own files, such as `model.ts:12`, else in npm packages of the
 * model. Undefined if there is none.
 */
export function authorLine(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const lines = [...(error.stack ?? "").matchAll(frame)].map(([, line]) => line);
  return authorLine(error.cause) ?? lines.find((line) => !line?.startsWith("node_modules/")) ?? lines[0];
}

/** At most 10 innermost frames in the author's files and npm packages, one per line; empty without frames. */
export function authorStack(error: unknown): string {
  if (!(error instanceof Error)) return "";
  const frames = [...(error.stack ?? "").matchAll(frame)].slice(0, MAX_FRAMES).map(([text]) => text);
  return authorStack(error.cause) || frames.join("\n");
}

/** The error's message and the line of the author's code, if known. For operators only, because it may show paths. */
export function messageWithLine(error: Error): string {
  const line = authorLine(error);
  return line === undefined ? error.message : `${error.message} (${line})`;
}
