/** Standard error of a child process when log lines are JSON. Log lines pass unchanged; crash reports and C++ warnings become log lines. */
import { log } from "../../base/log.ts";

/** Longer lines are split. */
const MAX_LINE_LENGTH = 64 * 1024;

/** Resolves when the stream has ended. @param name name of the process in the new log lines */
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
