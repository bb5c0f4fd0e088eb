/**
 * The rooms of `src` are folders with rules for imports. A table states for each room: the rooms that it imports, its
 * doors, which are the files that other rooms may import, and its budget of lines. `npm run check` enforces the table.
 */

import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { root } from "./setup/step.ts";

interface Room {
  /**
   * Names of rooms that this room imports, separated by spaces. All of them stand above it in the table. A room inside
   * a room may import its neighbours, and its outer room.
   */
  readonly imports: string;
  /**
   * Files that other rooms may import, without `.ts`; `*` for every file. For a room inside a room: files that the rest
   * of the outer room may import.
   */
  readonly doors: string;
  /** Most lines of the room. The commit that raises the number says why. A room inside a room has no number. */
  readonly maxLines?: number;
}

const rooms: Readonly<Record<string, Room>> = {
  base: {
    imports: "",
    doors: "*",
    maxLines: 3100,
  },
  author: {
    imports: "base",
    doors: `
      audio/wav data-url decoding-gate define device elements file hook-context input-error
      media-type model-settings name ndarray-bytes ndarray-wire openai params parts schema-faults session stack tensor tensor-memory
      wire-schema withheld-files z`,
    maxLines: 5350,
  },
  machine: {
    imports: "base .",
    doors: `
      control-groups files/archive files/durable files/file-stamp files/location files/lock files/made-once
      files/temporary-folder libtorch/cache-folder libtorch/device-loss libtorch/external-libtorch libtorch/find-addon libtorch/glibc
      libtorch/cpu-libtorch libtorch/library-cache libtorch/libtorch-build libtorch/linked-libraries
      libtorch/libtorch-env libtorch/native-location libtorch/pack network/address-guard network/bounded-body
      network/guarded-requests network/host-name network/listener network/name-resolver network/redirects processes/called-thread
      processes/child processes/event-loop-lag processes/exit processes/link
      processes/program processes/program-name processes/run-folder processes/shared-counters processes/shared-memory
      processes/supervised processor-needs`,
    maxLines: 3240,
  },
  package: {
    imports: "base author machine .",
    doors: `
      code/bundle code/load executable/contents executable/executable executable/sources
      image/image image/layout image/program model-source model-version registry/pull
      registry/push registry/registry registry/remote-reference store/manifest store/packaged-model
      store/reference store/store store/verification`,
    maxLines: 4680,
  },
  engine: {
    imports: "base author machine engine/batching engine/program engine/native",
    doors: `
      batching/item-queue batching/latency-target device engine hook-fault item-check
      native/binding open-runners program/program-schema
      program/weights-file remote/engine-server
      remote/frame remote/local-engine remote/remote-engine rows runner warm-up`,
    maxLines: 6300,
  },
  "engine/batching": {
    imports: "engine",
    doors: "batcher batching",
  },
  "engine/program": {
    imports: "",
    doors: "weights-file",
  },
  "engine/native": {
    imports: "engine engine/program",
    doors: "binding native-tensor",
  },
  "engine/remote": {
    imports: "engine engine/batching",
    doors: "",
  },
  pipeline: {
    imports: "base author machine package engine pipeline/memory pipeline/inputs",
    doors: `
      client difference drain-rate fetcher flow-credits golden hooks inputs/body
      inputs/expected-kinds inputs/form-body inputs/input-decoder inputs/input-list
      item-fault item-flow item-list item-pipeline local-model memory/charge memory/memory-account
      output-encoder run-demo set-up spans`,
    maxLines: 4500,
  },
  "pipeline/memory": {
    imports: "",
    doors: "charge file-memory memory-account",
  },
  "pipeline/inputs": {
    imports: "pipeline/memory",
    doors: "input-decoder input-list",
  },
  predictions: {
    imports: "base author machine package engine pipeline predictions/sqlite predictions/webhooks",
    doors: `
      admission event-log ids live-predictions memory-store metrics once predictions record
      redis/redis-store request running-build sqlite/server-database sqlite/sqlite-store store
      watched webhooks/webhook webhooks/webhooks`,
    maxLines: 5800,
  },
  "predictions/sqlite": {
    imports: "predictions predictions/webhooks",
    doors: "server-database sqlite-store",
  },
  "predictions/redis": {
    imports: "predictions predictions/webhooks",
    doors: "",
  },
  "predictions/webhooks": {
    imports: "predictions",
    doors: "webhook webhooks",
  },
  http: {
    imports: "base author machine pipeline predictions http/access http/apis http/openapi http/page",
    doors: `
      access/api-key access/api-keys access/key-file admin app metrics openapi/short-example options other-fronts
      problem record-json request route routes/health routes/models served-model uploads
      with-context`,
    maxLines: 6500,
  },
  "http/access": {
    imports: "",
    doors: "api-key api-keys key-file",
  },
  "http/apis": {
    imports: "http",
    doors: "apis",
  },
  "http/openapi": {
    imports: "http",
    doors: "document operation prediction-operations",
  },
  "http/page": {
    imports: "http",
    doors: "page",
  },
  server: {
    imports: "base author machine package engine pipeline predictions http server/metrics server/telemetry",
    doors: "config model-table roles server stray-errors",
    maxLines: 3920,
  },
  "server/metrics": {
    imports: "",
    doors: "counts metrics server-metrics",
  },
  "server/telemetry": {
    imports: "",
    doors: "open-telemetry settings",
  },
  cli: {
    imports: "base author machine package engine pipeline http server cli/build",
    doors: "",
    maxLines: 7360,
  },
  "cli/build": {
    imports: "cli",
    doors: `
      examination examination-report export-mistakes finding golden-outputs plain/model-folder plain/plain-model plain/tensor-input
      source-model trial-options type-check`,
  },
  // Files directly in `src` may import every room.
  ".": { imports: "", doors: "main index" },
};

/** Most lines of the addon in C++, in `native/`. */
const maxNativeLines = 7100;

interface Import {
  readonly from: string;
  readonly to: string;
  /** Whether the file starts a thread or a process with the other file, and does not load it. */
  readonly isStart?: boolean;
}

const importPattern =
  /\b(?:from|import) "(\.[^"]+\.tsx?)"|\bimport\("(\.[^"]+\.tsx?)"\)|\bnew URL\("(\.[^"]+\.ts)", import\.meta\.url\)/g;

/** All imports between files of `src`, including imports of types. */
export function readImports(src = join(root, "src")): Import[] {
  const files = new Set(filesIn(src, /\.tsx?$/));
  return [...files].flatMap((from) =>
    [...readFileSync(join(src, from), "utf8").matchAll(importPattern)]
      .map(([, fixed, dynamic, url]) => ({
        from,
        to: relative(src, join(src, dirname(from), fixed ?? dynamic ?? url ?? "")),
        isStart: url !== undefined,
      }))
      .filter(({ to }) => files.has(to)),
  );
}

function filesIn(folder: string, pattern: RegExp): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((path) => pattern.test(path));
}

/** The innermost room of a file. Files directly in `src` (`index.ts`, `main.ts`) have the room `.`. */
function roomOf(path: string): string {
  let folder = dirname(path);
  while (!(folder in rooms) && folder !== ".") folder = dirname(folder);
  return folder;
}

const words = (text: string | undefined) => (text === undefined ? [] : text.trim().split(/\s+/).filter(Boolean));

/** Finds files that import each other in a circle. @returns a message about one circle, if there is one */
export function circles(imports: readonly Import[] = readImports()): string[] {
  const open = new Map<string, Set<string>>();
  for (const { from, to, isStart } of imports) {
    if (!isStart) open.set(from, (open.get(from) ?? new Set()).add(to));
  }
  const nextOf = (file: string) => [...(open.get(file) ?? [])].find((each) => open.has(each));
  for (let hasEnds = true; hasEnds; ) {
    const ends = [...open.keys()].filter((file) => nextOf(file) === undefined);
    for (const file of ends) open.delete(file);
    hasEnds = ends.length > 0;
  }
  const walked: string[] = [];
  let [file] = open.keys();
  while (file !== undefined && !walked.includes(file)) {
    walked.push(file);
    file = nextOf(file);
  }
  if (file === undefined) return [];
  const circle = [...walked.slice(walked.indexOf(file)), file].map((each) => `src/${each}`);
  return [`${circle.join(" imports ")}: move what they share into the lower file, or into a third one`];
}

/** Compares the number of lines of each room with its budget. @returns a message for each larger room */
export function overBudget(linesOf: (room: string) => number = countLines): string[] {
  const budgets = [
    ...Object.entries(rooms).flatMap(([name, { maxLines }]) =>
      maxLines === undefined ? [] : [{ folder: `src/${name}`, maxLines }],
    ),
    { folder: "native", maxLines: maxNativeLines },
  ];
  return budgets.flatMap(({ folder, maxLines }) => {
    const lines = linesOf(folder);
    if (lines <= maxLines) return [];
    return [`${folder} has ${lines} lines, and its budget is ${maxLines}: take lines away, or say why there are more`];
  });
}

function countLines(folder: string): number {
  const texts = filesIn(join(root, folder), /\.(?:tsx?|css|cc|h)$/).map((path) =>
    readFileSync(join(root, folder, path), "utf8"),
  );
  return texts.reduce((sum, text) => sum + text.split("\n").length - 1, 0);
}

/**
 * Compares the imports with the table. @returns a message for each forbidden import, and for each door that no file
 * imports
 */
export function brokenRules(imports: readonly Import[] = readImports()): string[] {
  const broken = new Set(importsBelow());
  const unused = new Set(
    Object.entries(rooms).flatMap(([room, { doors }]) =>
      words(doors).flatMap((door) => (door === "*" ? [] : [`${room}/${door}`])),
    ),
  );
  for (const { from, to } of imports) {
    let [importer, imported] = [roomOf(from), roomOf(to)];
    const [outer = "", importedOuter = ""] = [importer.split("/")[0], imported.split("/")[0]];
    if (outer !== importedOuter) [importer, imported] = [outer, importedOuter];
    if (importer === imported || importer === ".") continue;
    if (!words(rooms[importer]?.imports).includes(imported)) {
      broken.add(`src/${from} imports src/${to}: ${importer} does not import ${imported}`);
    }
    const door = relative(imported, to).replace(/\.tsx?$/, "");
    unused.delete(`${imported}/${door}`);
    const doors = words(rooms[imported]?.doors);
    // Files of the outer room itself are open to the rooms inside it.
    const isOuter = importer.startsWith(`${imported}/`);
    if (!isOuter && !doors.includes("*") && !doors.includes(door)) {
      broken.add(`src/${from} imports src/${to}, which is no door of ${imported}: import a door, or make ${door} one`);
    }
  }
  for (const door of unused) broken.add(`src/${door}.ts is a door without an importer: remove it from the doors`);
  return [...broken];
}

/** Rooms that import a room below them in the table. */
function importsBelow(): string[] {
  const order = Object.keys(rooms).filter((name) => !name.includes("/") && name !== ".");
  return order.flatMap((name, i) =>
    words(rooms[name]?.imports)
      .filter((imported) => order.indexOf(imported) >= i)
      .map((imported) => `${name} imports ${imported}, which is not above it in the table`),
  );
}
