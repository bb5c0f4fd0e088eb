/** Measuring in turns: what is compared is measured A B A B, so that a machine that gets slower gets slower for both. */

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}

export function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

export interface Turn<A, B> {
  /** What was measured before and after, one after the other in one place. */
  readonly before: A;
  readonly measured: B;
  readonly after: A;
}

/**
 * Measures the yardstick, then the subject, then the yardstick again, and so on: every subject stands between two yardsticks.
 */
export async function inTurns<A, B>(
  repeats: number,
  yardstick: () => Promise<A>,
  subject: () => Promise<B>,
): Promise<Turn<A, B>[]> {
  const turns: Turn<A, B>[] = [];
  let before = await yardstick();
  for (let i = 0; i < repeats; i++) {
    const measured = await subject();
    const after = await yardstick();
    turns.push({ before, measured, after });
    before = after;
  }
  return turns;
}
