/** Results of one kind of fault: counts, and a line for each problem. */

export interface Counts {
  /** Number of injected faults. */
  injected: number;
  /** Number of faults after which the server worked as before. */
  survived: number;
  /** Number of predictions whose end was checked. */
  checked: number;
  /** Number of predictions that failed as they may: two processes died while they ran, and the message says so. */
  givenUp: number;
  /** Number of requests and acknowledged predictions that the server lost. */
  lost: number;
  /** Number of wrong answers, such as the output of another prediction. */
  wrong: number;
  /** Number of predictions, processes and requests that did not end in time. */
  stuck: number;
  /** Number of resources that a fault left behind or that exceed a limit: processes, files, descriptors, memory. */
  leaked: number;
}

type Fault = "lost" | "wrong" | "stuck" | "leaked";

/** Largest number of lines about problems. Later problems usually repeat earlier ones. */
const MAX_LINES = 20;

export class Tally {
  readonly counts: Counts = {
    injected: 0,
    survived: 0,
    checked: 0,
    givenUp: 0,
    lost: 0,
    wrong: 0,
    stuck: 0,
    leaked: 0,
  };
  /** Measurements for the report. */
  readonly notes: string[] = [];
  /** A line for each problem. */
  readonly problems: string[] = [];

  /** Counts a problem, and adds a line about it. */
  found(fault: Fault, problem: string): void {
    this.counts[fault] += 1;
    this.problem(`${fault}: ${problem}`);
  }

  /** Adds a line about a problem that no count covers. */
  problem(problem: string): void {
    if (this.problems.length < MAX_LINES) this.problems.push(problem);
  }

  note(note: string): void {
    this.notes.push(note);
  }

  /** Counts an injected fault. `survive` injects it, and resolves once the server works as before. */
  async inject(survive: () => Promise<void>): Promise<void> {
    this.counts.injected += 1;
    await survive();
    this.counts.survived += 1;
  }

  get isClean(): boolean {
    return this.problems.length === 0 && this.counts.survived === this.counts.injected;
  }
}
