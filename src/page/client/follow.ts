/** Follows a run to its end. The one place that knows how: today the page asks again and again. */
import { hasEnded, type Persistence, persistently, type Run, readRun } from "./api.ts";

/** Logs are seen this late at most. */
const ASK_AGAIN_SECONDS = 1;

export async function follow(id: string, onChange: (run: Run) => void, persistence: Persistence): Promise<void> {
  // What has ended, or will at once, is not waited for: a link to it opens at once.
  for (let waitSeconds = 0; ; waitSeconds = ASK_AGAIN_SECONDS) {
    const run = await persistently(() => readRun(id, waitSeconds, persistence.signal), persistence);
    onChange(run);
    if (hasEnded(run)) return;
  }
}
