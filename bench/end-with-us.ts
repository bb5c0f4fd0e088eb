/** What this program started does not outlive it, when it is told to end. */

const signals = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 } as const;
const names = Object.keys(signals) as (keyof typeof signals)[];
const endings = new Set<() => void>();

/**
 * Calls `end` when this program is told to end. A terminal interrupts all processes of its group, but neither what has a group of its own,
 * nor anything when the signal is sent to this process alone.
 *
 * @returns a function that takes that back, for when what it was about has ended
 */
export function endWithUs(end: () => void): () => void {
  if (endings.size === 0) for (const name of names) process.on(name, endAll);
  endings.add(end);
  return () => {
    if (endings.delete(end) && endings.size === 0) for (const name of names) process.off(name, endAll);
  };
}

function endAll(signal: keyof typeof signals): void {
  for (const end of endings) end();
  process.exit(128 + signals[signal]);
}
