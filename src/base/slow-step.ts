/** Reports a slow step of the start: the elapsed seconds on a terminal, otherwise one log line. */
import { isLogJson, log } from "./log.ts";

const QUIET_MS = 2000;
const TICK_MS = 1000;
const clearLine = "\r\u001b[K";

interface SlowStepOptions {
  readonly quietMs?: number;
  readonly terminal?: { readonly isTTY?: boolean; write(text: string): unknown };
  readonly writeLine?: (line: string) => void;
}

/**
 * Awaits a task, and reports it if it takes longer than 2 seconds.
 * @param doing the activity, e.g. "Loading weights"
 */
export async function slowStep<T>(doing: string, task: Promise<T>, options: SlowStepOptions = {}): Promise<T> {
  const { quietMs = QUIET_MS, terminal = process.stderr, writeLine = (line) => log.info(line) } = options;
  const begunMs = performance.now();
  let shown = "";
  const show = () => {
    if (isLogJson() || !terminal.isTTY) return writeLine(`${doing} …`);
    shown = clearLine;
    terminal.write(`${clearLine}${doing}: ${Math.round((performance.now() - begunMs) / 1000)} s`);
    timer = setTimeout(show, TICK_MS);
  };
  let timer = setTimeout(show, quietMs);
  try {
    return await task;
  } finally {
    clearTimeout(timer);
    if (shown !== "") terminal.write(shown);
  }
}
