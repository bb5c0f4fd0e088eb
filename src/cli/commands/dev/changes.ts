/** Reports file changes in folders. Changes in quick succession are reported once. */
import { type FSWatcher, watch } from "node:fs";
import { messageOf } from "../../../base/errors.ts";
import { log } from "../../../base/log.ts";

/** Milliseconds without a change before the report: a save causes several events, and an export writes for a while. */
const QUIET_MS = 60;
/** Matches paths that belong to no model: npm packages, and files of editors and version control. */
const ignored = /(^|\/)(node_modules|\.[^/]+|__pycache__)(\/|$)|~$/;

export class Changes implements Disposable {
  readonly #watchers = new Map<string, FSWatcher>();
  readonly #onChange: () => void;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(onChange: () => void) {
    this.#onChange = onChange;
  }

  add(folder: string, { recursive }: { recursive: boolean }): void {
    if (this.#watchers.has(folder)) return;
    try {
      const watcher = watch(folder, { recursive }, (_, file) => {
        if (file !== null && ignored.test(file)) return;
        clearTimeout(this.#timer);
        this.#timer = setTimeout(this.#onChange, QUIET_MS);
      });
      watcher.on("error", (error) => log.warn(`${folder} is not watched any longer: ${messageOf(error)}`));
      this.#watchers.set(folder, watcher);
    } catch (error) {
      log.warn(`${folder} cannot be watched: ${messageOf(error)}`);
    }
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    for (const watcher of this.#watchers.values()) watcher.close();
  }
}
