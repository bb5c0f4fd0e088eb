/** Explains why a child process ended. */
import { join } from "node:path";
import type { RestartCause } from "../../base/labels.ts";
import { systemText } from "../../base/system-file.ts";
import { memoryGroups } from "../control-groups.ts";
import type { ChildEnd } from "./child.ts";

export interface Death {
  /** The predicate of a sentence such as "the engine process was ended by SIGKILL". */
  readonly reason: string;
  readonly cause: RestartCause;
}

export function deathOf({ exitCode, signal }: ChildEnd, oomKills: OomKills): Death {
  const hasRisen = oomKills.hasRisen();
  if (signal === null) return { reason: `ended with code ${exitCode}`, cause: "exit" };
  if (signal === "SIGKILL" && hasRisen) {
    return { reason: "was ended by SIGKILL, probably because memory ran out", cause: "memory" };
  }
  return { reason: `was ended by ${signal}`, cause: "signal" };
}

/** Reads the kernel's count of processes that it killed because memory ran out. */
export class OomKills {
  readonly #files: readonly string[];
  #seen: number | undefined;

  /**
   * @param files counter files of the kernel, such as `memory.events`; the first file with a line `oom_kill N` is used
   */
  constructor(files: readonly string[] = counterFiles()) {
    this.#files = files;
    this.#seen = this.#count();
  }

  /** Whether the kernel has killed a process for memory since the last call, or since the constructor. */
  hasRisen(): boolean {
    const [before, now] = [this.#seen, this.#count()];
    this.#seen = now;
    return before !== undefined && now !== undefined && now > before;
  }

  #count(): number | undefined {
    for (const file of this.#files) {
      const count = /^oom_kill (\d+)$/m.exec(systemText(file))?.[1];
      if (count !== undefined) return Number(count);
    }
    return undefined;
  }
}

/** Counter files of this control group (version 1 or 2), then of the whole machine. */
function counterFiles(): string[] {
  const files = [...memoryGroups()].flatMap(({ version, mount, path }) => {
    const file = version === 2 ? "memory.events" : "memory.oom_control";
    // If `path` does not exist below `mount`, the group's files lie at the top folder.
    return [join(mount, path, file), join(mount, file)];
  });
  return [...files, "/proc/vmstat"];
}
