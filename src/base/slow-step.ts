/** Reports a slow step of the start. */
import { log } from "./log.ts";

const QUIET_MS = 2000;

/**
 * Awaits a task, and logs a line if it takes longer than 2 seconds.
 * @param doing the activity, e.g. "Loading weights"
 */
export async function slowStep<T>(doing: string, task: Promise<T>): Promise<T> {
  const timer = setTimeout(() => log.info(`${doing} …`), QUIET_MS);
  return task.finally(() => clearTimeout(timer));
}
