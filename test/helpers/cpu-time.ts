/** Processor time of a task, independent of other load on the machine. */

/** @returns processor time of this process, in milliseconds */
export function cpuMs(task: () => void): number {
  const before = process.cpuUsage();
  task();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}
