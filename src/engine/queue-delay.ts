/** The policy of a fixed delay: batches are as large as they can be, and a ready item waits so long for a fuller one. */
import type { BatchPolicy, Waiting } from "./batch-policy.ts";

export class QueueDelay implements BatchPolicy {
  readonly ms: number;

  constructor(ms: number) {
    this.ms = ms;
  }

  arrived(): void {}

  ran(): void {}

  sizeOf({ ready }: Waiting): number {
    return ready;
  }

  dueAtMs(waiting: Waiting): number {
    // Whose age does not matter need not be looked for.
    return this.ms === 0 ? -Infinity : waiting.oldestAtMs + this.ms;
  }

  runMs(): number {
    return 0;
  }
}
