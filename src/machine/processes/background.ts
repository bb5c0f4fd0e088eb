/** Background work: threads with Linux's policy SCHED_IDLE, which run only on cores that no other thread wants. */
import { existsSync, writeFileSync } from "node:fs";
import { getPriority } from "node:os";
import { statFields, systemText } from "../../base/system-file.ts";
import { LAST_NICE, SCHED_IDLE, SCHED_OTHER, setPolicies, threadsBelow, threadsOf } from "./scheduling.ts";

/** Number of a capability of Linux. */
const CAP_SYS_NICE = 23n;
/** A limit RLIMIT_NICE of N allows a `nice` of 20 minus N, and higher. */
const NICE_BASE = 20;
/** Interval of checks whether the threads run at all. */
const WATCH_MS = 500;
const STARVED = { waitedNs: 3e9, times: 4 };

export class Background implements Disposable {
  readonly #watch: ReturnType<typeof setInterval>;
  #hasLeft = false;

  private constructor() {
    this.#watch = setInterval(() => isStarved() && this.leave(), WATCH_MS);
    this.#watch.unref();
  }

  /**
   * Moves this process to the background, with the child processes that it will start. All of them leave it if they get
   * hardly any time on a core.
   * @returns undefined if the process stays: the system would not let it leave the background, or it has another
   * policy, such as SCHED_BATCH, which `leave` would not restore
   */
  static enter(): Background | undefined {
    // A process that `start` has started has the policy SCHED_IDLE.
    if (![SCHED_OTHER, SCHED_IDLE].includes(policyOfProcess()) || !mayLeave()) return undefined;
    setPolicies(() => threadsOf(process.pid), SCHED_IDLE);
    setSessionNice(LAST_NICE);
    return new Background();
  }

  /** Starts a process. It runs in the background if the system would let it leave the background later. */
  static start<T>(start: () => T): T {
    if (policyOfProcess() !== SCHED_OTHER || !mayLeave() || !mayLeave(inheritedCapabilities())) return start();
    // A process begins with the policy of the thread that starts it.
    setPolicies(() => [process.pid], SCHED_IDLE);
    try {
      return start();
    } finally {
      setPolicies(() => [process.pid], SCHED_OTHER);
    }
  }

  /** Moves this process, but no child process, out of the background, so that it can measure times. */
  static leaveAlone(): void {
    if (policyOfProcess() !== SCHED_IDLE || !mayLeave()) return;
    if (systemText("/proc/self/autogroup").endsWith(` nice ${LAST_NICE}\n`)) setAutogroupNice(0);
    setPolicies(() => threadsOf(process.pid), SCHED_OTHER);
  }

  /** Moves this process and all processes below it out of the background. */
  leave(): void {
    if (this.#hasLeft) return;
    this.#hasLeft = true;
    clearInterval(this.#watch);
    setSessionNice(0);
    setPolicies(() => threadsBelow(process.pid), SCHED_OTHER);
  }

  [Symbol.dispose](): void {
    this.leave();
  }
}

/** Whether the threads waited for a core for seconds, and much longer than they ran. */
function isStarved(): boolean {
  let [ranNs, waitedNs] = [0, 0];
  for (const thread of threadsBelow(process.pid)) {
    const [ran = 0, waited = 0] = systemText(`/proc/${thread}/schedstat`).split(" ").map(Number);
    ranNs += ran;
    waitedNs += waited;
  }
  return waitedNs > STARVED.waitedNs && waitedNs > STARVED.times * ranNs;
}

/**
 * Whether this process may restore the normal policy: with the capability CAP_SYS_NICE in the first user namespace, or
 * if RLIMIT_NICE allows the present `nice`.
 * @param set the set of capabilities in /proc/self/status
 */
function mayLeave(set = "CapEff"): boolean {
  if (process.platform !== "linux" || !existsSync(`/proc/${process.pid}/task/${process.pid}/children`)) return false;
  const [, limit = "0"] = /^Max nice priority\s+(\d+)/m.exec(systemText("/proc/self/limits")) ?? [];
  if (NICE_BASE - Number(limit) <= getPriority()) return true;
  const status = systemText("/proc/self/status");
  const [, capabilities = "0"] = new RegExp(`^${set}:\\s*([0-9a-f]+)`, "m").exec(status) ?? [];
  const isFirstNamespace = /^\s*0\s+0\s+4294967295\s*$/.test(systemText("/proc/self/uid_map"));
  return isFirstNamespace && ((BigInt(`0x${capabilities}`) >> CAP_SYS_NICE) & 1n) === 1n;
}

/**
 * Name of the set of capabilities that a program gets when this process starts it. Capabilities of this process's file
 * are not in the set, because the file may have changed.
 */
const inheritedCapabilities = () => (process.getuid?.() === 0 ? "CapBnd" : "CapAmb");

/**
 * Sets the `nice` of this process's session, because kernels with `autogroup` divide time between sessions first. Does
 * nothing unless this process leads the session.
 */
function setSessionNice(nice: number): void {
  const [, , , session] = statFields("/proc/self/stat");
  if (session === String(process.pid)) setAutogroupNice(nice);
}

function setAutogroupNice(nice: number): void {
  try {
    writeFileSync("/proc/self/autogroup", String(nice));
  } catch {
    // The kernel has no `autogroup`.
  }
}

const policyOfProcess = () => Number(statFields("/proc/self/stat")[38]);
