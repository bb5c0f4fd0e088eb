/** What the scripts print while they work: one aligned line a step, on standard error, so that standard output stays the program's. */

const terminal = process.stderr.isTTY === true;
const colour = terminal && !process.env.NO_COLOR && process.env.TERM !== "dumb";

/** A step without a terminal says that it is under way only when it takes longer than this. */
const patienceMs = 3_000;

/** `✓ packages   83 packages of bun.lock            1.2 s` */
export function line(mark: "✓" | "✗" | " ", name: string, text: string, time = ""): string {
  const padded = time === "" ? text : `${text.padEnd(56)} ${time.padStart(8)}`;
  const painted = colour ? { "✓": "\x1b[32m✓\x1b[0m", "✗": "\x1b[31m✗\x1b[0m", " ": " " }[mark] : mark;
  return `${painted} ${name.padEnd(10)} ${padded}`;
}

/** Milliseconds as the reports show them: `3 ms`, `0.3 s`, `1 min 12 s`. */
export function seconds(ms: number): string {
  if (ms < 99.5) return `${Math.ceil(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(1)} s`;
  const whole = Math.round(ms / 1000);
  return `${Math.floor(whole / 60)} min ${whole % 60} s`;
}

/** The line of a step that is under way; rewritten in place on a terminal. */
export class StepLine {
  readonly #began = performance.now();
  readonly #name: string;
  readonly #timer: NodeJS.Timeout;
  #activity: string;

  constructor(name: string, activity: string) {
    this.#name = name;
    this.#activity = activity;
    this.#timer = setInterval(() => this.#show(), terminal ? 100 : patienceMs);
    if (terminal) this.#show();
  }

  update(activity: string): void {
    this.#activity = activity;
    if (terminal) this.#show();
  }

  /** Leaves a line that stays above the one of the step. */
  note(text: string): void {
    this.#erase();
    process.stderr.write(`${line(" ", this.#name, text)}\n`);
  }

  done(summary: string): void {
    this.#end(line("✓", this.#name, summary, seconds(performance.now() - this.#began)));
  }

  failed(summary: string): void {
    this.#end(line("✗", this.#name, summary, seconds(performance.now() - this.#began)));
  }

  #show(): void {
    this.#erase();
    const elapsed = seconds(performance.now() - this.#began);
    if (terminal) {
      process.stderr.write(line(" ", this.#name, this.#activity, elapsed).slice(0, process.stderr.columns || 80));
    } else {
      process.stderr.write(`${line(" ", this.#name, `${this.#activity} …`)}\n`);
      clearInterval(this.#timer);
    }
  }

  #end(text: string): void {
    clearInterval(this.#timer);
    this.#erase();
    process.stderr.write(`${text}\n`);
  }

  #erase(): void {
    if (terminal) process.stderr.write("\r\x1b[2K");
  }
}
