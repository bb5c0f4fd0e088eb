/**
 * Forwards a child process's standard error when log lines are JSON. Log lines pass unchanged; other lines, such as
 * crash reports and C++ warnings, become log lines.
 */
import { log } from "../../base/log.ts";

/** Longest line in characters. A longer line is split. */
const MAX_LINE_LENGTH = 64 * 1024;

/**
 * Forwards all lines of a child's standard error. Resolves at the end of the stream.
 * @param name name of the process in new log lines
 */
export async function passLines(stream: ReadableStream<Uint8Array>, name: string): Promise<void> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of stream) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) pass(line, name);
    if (rest.length <= MAX_LINE_LENGTH) continue;
    pass(rest, name);
    rest = "";
  }
  pass(rest, name);
}

function pass(line: string, name: string): void {
  if (isLogLine(line)) process.stderr.write(`${line}\n`);
  else if (line.trim() !== "") log.warn(`The ${name} wrote: ${Bun.stripANSI(line)}`);
}

function isLogLine(line: string): boolean {
  if (!line.startsWith('{"time":')) return false;
  try {
    JSON.parse(line);
    return true;
  } catch {
    return false;
  }
}
