/** How much of the machine is ours: two loops at once, one a core, that do nothing but count. */

import { Child } from "./child.ts";
import { spread } from "./turns.ts";

const CORES = 2;
const MS = 200;
const program = `
let counted = 0;
const spin = (ms) => { const end = performance.now() + ms; counted = 0; while (performance.now() < end) for (let i = 0; i < 1000; i++) counted++; };
spin(20);
spin(${MS});
console.log(counted);`;

/** Counts of the slower core, in millions a second; compare only those of one run. */
export class Canary {
  readonly #heard: number[] = [];
  #since = 0;

  async listen(): Promise<void> {
    const spins = Array.from({ length: CORES }, () => Child.run([process.execPath, "-e", program]));
    const counts = (await Promise.all(spins)).map(Number);
    this.#heard.push(Math.min(...counts) / (MS * 1000));
  }

  /** What was heard since the last call, as shares of the best that was heard in this run. */
  shares(): { min: number; max: number } {
    const best = Math.max(...this.#heard);
    const { min, max } = spread(this.#heard.slice(this.#since));
    this.#since = this.#heard.length;
    return { min: min / best, max: max / best };
  }
}
