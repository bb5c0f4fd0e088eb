/** What a child process writes to standard error where log lines are JSON: its own lines as they are, all else (crash reports, C++ warnings) as lines. */
import { log } from "../../base/log.ts";

/** Of a line without an end. */
const MAX_LINE_LENGTH = 64 * 1024;

/** Resolves when the stream has ended. @param name of the process, for lines that are not its log's */
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
