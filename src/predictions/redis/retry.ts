/** Repeats a call to Redis until it succeeds, or until a time in milliseconds of `performance.now()`. Never throws. */

const RETRY_MS = 200;

export async function retry(call: () => Promise<unknown>, untilMs: number): Promise<void> {
  do {
    try {
      await call();
      return;
    } catch {
      await Bun.sleep(RETRY_MS);
    }
  } while (performance.now() < untilMs);
}
