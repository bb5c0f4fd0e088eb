/** Prints one aligned line for each step of a script, on standard error. Standard output belongs to the program. */

const terminal = process.stderr.isTTY === true;
const colour = terminal && !process.env.NO_COLOR && process.env.TERM !== "dumb";

/** A line such as `✓ packages   83 packages of bun.lock            1.2 s`. */
export function line(mark: "✓" | "✗" | " ", name: string, text: string, time = ""): string {
  const padded = time === "" ? text : `${text.padEnd(56)} ${time.padStart(8)}`;
  const painted = colour ? { "✓": "\x1b[32m✓\x1b[0m", "✗": "\x1b[31m✗\x1b[0m", " ": " " }[mark] : mark;
  return `${painted} ${name.padEnd(10)} ${padded}`;
}

/** A duration as text: `3 ms`, `0.3 s` or `1 min 12 s`. */
export function seconds(ms: number): string {
  if (ms < 99.5) return `${Math.ceil(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(1)} s`;
  const whole = Math.round(ms / 1000);
  return `${Math.floor(whole / 60)} min ${whole % 60} s`;
}

/** Milliseconds between two lines of progress where standard error is no terminal. */
const PROGRESS_MS = 15_000;

/** The line of a running step. A terminal shows the elapsed time; other outputs get a line for each activity. */
export class StepLine {
  readonly #began = performance.now();
  readonly #name: string;
  readonly #timer: NodeJS.Timeout | undefined;
  #activity: string;
  #shownAt = performance.now();

  constructor(name: string, activity: string) {
    this.#name = name;
    this.#activity = activity;
    if (terminal) this.#timer = setInterval(() => this.#show(), 100);
  }

  update(activity: string): void {
    this.#activity = activity;
    if (terminal) this.#show();
    else this.note(`${activity} …`);
  }

  /** Shows how far the activity is: always on a terminal, else seldom. */
  progress(activity: string): void {
    if (!terminal && performance.now() - this.#shownAt < PROGRESS_MS) return;
    this.#shownAt = performance.now();
    this.update(activity);
  }

  /** Prints another line above the line of the step. */
  note(text: string): void {
    this.#print(line(" ", this.#name, text));
  }

  done(summary: string): void {
    this.#end("✓", summary);
  }

  failed(summary: string): void {
    this.#end("✗", summary);
  }

  #show(): void {
    const shown = line(" ", this.#name, this.#activity, seconds(performance.now() - this.#began));
    process.stderr.write(`${clear}${shown.slice(0, process.stderr.columns || 80)}`);
  }

  #end(mark: "✓" | "✗", summary: string): void {
    clearInterval(this.#timer);
    this.#print(line(mark, this.#name, summary, seconds(performance.now() - this.#began)));
  }

  #print(text: string): void {
    process.stderr.write(`${clear}${text}\n`);
  }
}

const clear = terminal ? "\r\x1b[2K" : "";
