/** What a task costs, on a machine that has other things to do meanwhile, too. */

/** @returns milliseconds for which this process was at work */
export function cpuMs(task: () => void): number {
  const before = process.cpuUsage();
  task();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}
