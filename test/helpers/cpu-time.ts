/** Measures processor time, which hardly depends on the load of the machine. */

/** Runs a task. @returns the processor time of this process meanwhile, in milliseconds */
export function cpuMs(task: () => void): number {
  const before = process.cpuUsage();
  task();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}
